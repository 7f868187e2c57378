import { createHash } from "node:crypto";
import type { BlockNamer, ExtraKey } from "../model/prefix-cache.ts";

const sha256 = (data: Uint8Array): Buffer => createHash("sha256").update(data).digest();

/**
 * vLLM's `sha256_cbor`: SHA-256 of canonical CBOR `[parent digest, [token ids], extra]`, where extra is null or tagged
 * pairs, and the root's parent is the digest of the seed text (`PYTHONHASHSEED`, else "vllm-none-hash"). Checked against
 * recorded vLLM 0.32.0 events. Other values of `--prefix-caching-hash-algo` get it too: to a listener hashes are names.
 * @returns a namer that gives the whole digest in hex
 */
export function vllmNamer(seed: string | undefined): BlockNamer {
  const none = sha256(cborText(seed ?? "vllm-none-hash"));
  return (parent, tokenIds, extra) => {
    const head = parent === undefined ? none : Buffer.from(parent, "hex");
    const parts = [
      cborHead(4, 3),
      cborBytes(head),
      cborHead(4, tokenIds.length),
      ...tokenIds.map((id) => cborHead(0, id)),
    ];
    return sha256(Buffer.concat([...parts, cborExtra(extra)])).toString("hex");
  };
}

/**
 * SGLang's page hash: SHA-256 of the previous page's digest and the token ids as little-endian 32-bit words; page 0 has no
 * prefix (0.5.23, checked on recorded pages). A salt changes it there in a way that is not known: here it stands in front.
 */
export const sglangNamer: BlockNamer = (parent, tokenIds, extra) => {
  const hash = createHash("sha256");
  for (const key of extra) hash.update(sha256(Buffer.from(`${key.kind}=${key.value}`)));
  if (parent !== undefined) hash.update(Buffer.from(parent, "hex"));
  const words = new DataView(new ArrayBuffer(4 * tokenIds.length));
  tokenIds.forEach((id, i) => {
    words.setUint32(4 * i, id, true);
  });
  return hash.update(new Uint8Array(words.buffer)).digest("hex");
};

function cborHead(major: number, value: number): Buffer {
  const lead = major << 5;
  if (value < 24) return Buffer.from([lead | value]);
  if (value < 0x100) return Buffer.from([lead | 24, value]);
  if (value < 0x10000) return Buffer.from([lead | 25, value >> 8, value & 0xff]);
  const wide = Buffer.alloc(5);
  wide[0] = lead | 26;
  wide.writeUInt32BE(value, 1);
  return wide;
}

function cborBytes(bytes: Uint8Array): Buffer {
  return Buffer.concat([cborHead(2, bytes.length), bytes]);
}

function cborText(text: string): Buffer {
  const bytes = Buffer.from(text);
  return Buffer.concat([cborHead(3, bytes.length), bytes]);
}

function cborExtra(extra: readonly ExtraKey[]): Buffer {
  if (extra.length === 0) return Buffer.from([0xf6]);
  const pairs = extra.flatMap((key) => [cborHead(4, 2), cborText(key.kind), cborText(key.value)]);
  return Buffer.concat([cborHead(4, extra.length), ...pairs]);
}
