import { createHmac } from "node:crypto";
import type { BlockStored, KvEvent, KvEventBatch } from "../core/kv-event.ts";
import { rootKey } from "../core/prefix-knowledge.ts";
import type { Vocabulary } from "../prompt/vocabulary.ts";

/** A prompt as the chain of known blocks that it begins with. */
export interface RedactedPrompt {
  /** [n] salted hash of each block with all before it, 32 bits. */
  readonly blocks: readonly number[];
  /** The prompt goes on after them. */
  readonly rest: boolean;
  /** Salted hash of the request's salt; "" for none. */
  readonly salt: string;
}

/**
 * Replaces what a capture says of content by salted hashes: enough to verify matching, nothing to read. Each block becomes
 * one 32-bit hash of its bytes and all before them, stored as its first token id (the others 0); engine names, adapters and
 * salts are hashed too.
 */
export interface Redactor {
  batch(batch: KvEventBatch): KvEventBatch;
  /** Against all blocks published so far, held or not. */
  prompt(salt: string, bytes: Uint8Array): RedactedPrompt;
}

/** @param key - random per capture, and thrown away with it */
export function createRedactor(key: Uint8Array, vocabulary: Pick<Vocabulary, "decodeBlocks">): Redactor {
  const chains = new Map<bigint, string>();
  /** Chain so far → length of the next block → chains with it. */
  const children = new Map<string, Map<number, Set<string>>>();
  const mac = (...parts: readonly (string | Uint8Array)[]): string => {
    const hmac = createHmac("sha256", key);
    for (const part of parts) hmac.update(part);
    return hmac.digest("hex").slice(0, 32);
  };
  const hidden = (text: string) => (text === "" ? "" : mac("text:", text));
  const name = (n: bigint) => BigInt(`0x${mac("name:", String(n)).slice(0, 16)}`);
  const rootOf = (lora: string, extra: string) => mac("root:", rootKey(lora, extra));
  const next = (chain: string, bytes: Uint8Array) => mac(chain, bytes);
  const stored = (event: BlockStored): readonly KvEvent[] => {
    const decoded = vocabulary.decodeBlocks(event.tokenIds, event.blockTokens);
    if (decoded === undefined) return [];
    const tokenIds = new Uint32Array(event.tokenIds.length);
    let chain = event.parent === undefined ? rootOf(event.lora, event.extra) : (chains.get(event.parent) ?? "orphan");
    let from = 0;
    for (const [i, end] of decoded.ends.entries()) {
      const grown = next(chain, decoded.bytes.subarray(from, end));
      const byLength = children.get(chain) ?? new Map<number, Set<string>>();
      children.set(chain, byLength.set(end - from, (byLength.get(end - from) ?? new Set()).add(grown)));
      chains.set(event.names[i] as bigint, grown);
      tokenIds[i * event.blockTokens] = hash32(grown);
      chain = grown;
      from = end;
    }
    const parent = event.parent === undefined ? undefined : name(event.parent);
    return [
      {
        ...event,
        names: event.names.map(name),
        parent,
        tokenIds,
        lora: hidden(event.lora),
        extra: hidden(event.extra),
      },
    ];
  };
  return {
    batch(batch) {
      const events = batch.events.flatMap((event): readonly KvEvent[] => {
        if (event.type === "stored") return stored(event);
        return [event.type === "removed" ? { ...event, names: event.names.map(name) } : event];
      });
      return { ...batch, events };
    },
    prompt(salt, bytes) {
      const blocks: number[] = [];
      let chain = rootOf("", salt);
      let at = 0;
      for (;;) {
        const found = [...(children.get(chain) ?? [])].find(
          ([length, grown]) => at + length <= bytes.length && grown.has(next(chain, bytes.subarray(at, at + length))),
        );
        if (found === undefined) return { blocks, rest: at < bytes.length, salt: hidden(salt) };
        chain = next(chain, bytes.subarray(at, at + found[0]));
        at += found[0];
        blocks.push(hash32(chain));
      }
    },
  };
}

/** Reads redacted blocks: four bytes of hash each, whatever their size was. */
export const REDACTED_VOCABULARY: Pick<Vocabulary, "decodeBlocks"> = {
  decodeBlocks(ids, blockTokens) {
    const hashes = Array.from({ length: Math.floor(ids.length / blockTokens) }, (_, i) => ids[i * blockTokens] ?? 0);
    return { bytes: bytesOf(hashes, false), ends: Uint32Array.from(hashes, (_, i) => 4 * (i + 1)) };
  },
};

/** The prompt's bytes to match redacted blocks with. */
export function bytesOf(blocks: readonly number[], rest: boolean): Uint8Array {
  const bytes = new Uint8Array(4 * blocks.length + (rest ? 1 : 0));
  const view = new DataView(bytes.buffer);
  for (const [i, hash] of blocks.entries()) view.setUint32(4 * i, hash);
  return bytes;
}

const hash32 = (chain: string): number => Number.parseInt(chain.slice(0, 8), 16);
