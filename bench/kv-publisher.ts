import { encode } from "@msgpack/msgpack";
import { Publisher } from "zeromq";
import { BYTE_TURN_END, BYTE_TURN_START } from "../src/prompt/byte-template.ts";

/** Of the block size that benchmarks' engines have. */
export const BLOCK_TOKENS = 16;

/**
 * The prefix cache of a fake engine whose tokens are bytes: least recently used blocks go first. What changes is published as vLLM 0.32
 * does, a message a prompt.
 */
export class KvPublisher {
  readonly #pub = new Publisher({ linger: 0, sendHighWaterMark: 1_000_000 });
  readonly #capacity: number;
  /** Block by its text and its parent; in the order of use. */
  readonly #held = new Map<string, bigint>();
  #next = 1n;
  #seq = 0n;
  #sending: Promise<unknown> = Promise.resolve();

  /** @param capacity blocks that it holds */
  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  bind(port: number): Promise<void> {
    return this.#pub.bind(`tcp://127.0.0.1:${port}`);
  }

  /** A chat was computed. */
  computed(messages: readonly { readonly role: string; readonly content: string }[]): void {
    const turns = messages.map(({ role, content }) => `${BYTE_TURN_START}${role}\n${content}${BYTE_TURN_END}\n`);
    const bytes = Buffer.from(`${turns.join("")}${BYTE_TURN_START}assistant\n`);
    const events: object[] = [];
    let parent: bigint | null = null;
    let names: bigint[] = [];
    let from = 0;
    let before: bigint | null = null;
    for (let at = 0; at + BLOCK_TOKENS <= bytes.length; at += BLOCK_TOKENS) {
      const key = `${parent}/${bytes.toString("latin1", at, at + BLOCK_TOKENS)}`;
      let name = this.#held.get(key);
      if (name === undefined) {
        if (names.length === 0) [from, before] = [at, parent];
        names.push((name = this.#next++));
      } else {
        if (names.length > 0) events.push(blockStored(names, before, [...bytes.subarray(from, at)]));
        names = [];
        this.#held.delete(key);
      }
      this.#held.set(key, name);
      parent = name;
    }
    const to = from + names.length * BLOCK_TOKENS;
    if (names.length > 0) events.push(blockStored(names, before, [...bytes.subarray(from, to)]));
    const removed = this.#removed();
    if (removed.length > 0) events.push({ type: "BlockRemoved", block_hashes: removed, medium: "GPU", group_idx: 0 });
    if (events.length > 0) this.#send(events);
  }

  #removed(): bigint[] {
    const removed: bigint[] = [];
    for (const [key, name] of this.#held) {
      if (this.#held.size <= this.#capacity) break;
      this.#held.delete(key);
      removed.push(name);
    }
    return removed;
  }

  #send(events: readonly object[]): void {
    const number = Buffer.alloc(8);
    number.writeBigUInt64BE(this.#seq++);
    const payload = encode([Date.now() / 1000, events, 0], { useBigInt64: true });
    this.#sending = this.#sending.then(() => this.#pub.send(["", number, payload]));
  }
}

/** An event of vLLM 0.32.0 that stores blocks of BLOCK_TOKENS. */
export function blockStored(names: readonly bigint[], parent: bigint | null, tokens: readonly number[]): object {
  return {
    type: "BlockStored",
    block_hashes: names,
    parent_block_hash: parent,
    token_ids: tokens,
    block_size: BLOCK_TOKENS,
    lora_id: null,
    medium: "GPU",
    lora_name: null,
    extra_keys: names.map(() => null),
    group_idx: 0,
    kv_cache_spec_kind: "full_attention",
  };
}
