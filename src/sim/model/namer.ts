import type { BlockNamer } from "./cache-event.ts";

const PRIME = 0x01000193;

/** FNV-1a over 32-bit words, with its own start value. */
function fnv(start: number, words: Iterable<number>): number {
  let hash = start;
  for (const word of words) {
    for (let shift = 0; shift < 32; shift += 8) hash = Math.imul(hash ^ ((word >>> shift) & 0xff), PRIME);
  }
  return hash >>> 0;
}

/**
 * A namer without cryptography, for virtual time: 64 bits as 16 hex digits. Good against chance, not against malice; the
 * wire uses the engines' own hashes.
 */
export const fastNamer: BlockNamer = (parent, tokenIds, extra) => {
  const words = [...(parent ?? "root"), ...extra.map((key) => `${key.kind}=${key.value};`).join("")].map((c) =>
    c.charCodeAt(0),
  );
  const high = fnv(fnv(0x811c9dc5, words), tokenIds);
  const low = fnv(fnv(0x2f0b4a57, words), tokenIds);
  return high.toString(16).padStart(8, "0") + low.toString(16).padStart(8, "0");
};
