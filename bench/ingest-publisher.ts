// The engine's side of the ingest benchmark, in a thread of its own: publishes KV events as vLLM 0.32.0 does, one message a step.
import { parentPort, workerData } from "node:worker_threads";
import { encode } from "@msgpack/msgpack";
import { Publisher } from "zeromq";
import { BLOCK_TOKENS, blockStored } from "./kv-publisher.ts";

/** What is published. A message has one prompt chunk of `chunkBlocks`, as many blocks of answers, and as many removals. */
export interface IngestLoad {
  readonly messages: number;
  readonly chunkBlocks: number;
  /** Blocks a second; 0: as fast as can be. */
  readonly rate: number;
  /** Blocks held before the oldest are removed. */
  readonly held: number;
  readonly vocabulary: number;
}

/** Messages sent at once when paced. */
const BURST_MS = 2;

/** Random words, the same on every machine (xorshift32). */
function generator(seed: number): () => number {
  let state = seed | 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state >>> 0;
  };
}

function createWriter({ chunkBlocks, held, vocabulary }: IngestLoad) {
  const next = generator(7);
  const live: bigint[] = [];
  let removed = 0;
  // As in text: few tokens are most of it.
  const token = () => Math.floor(vocabulary * (next() / 2 ** 32) ** 3);
  const name = () => (BigInt(next()) << 32n) | BigInt(next());
  const stored = (names: bigint[], parent: bigint | null) => {
    live.push(...names);
    const tokens = Array.from({ length: names.length * BLOCK_TOKENS }, () => token());
    return blockStored(names, parent, tokens);
  };
  /** Events of one step: what is removed makes room for what is stored. */
  return (): { readonly blocks: number; readonly events: object[] } => {
    const blocks = 2 * chunkBlocks;
    const events: object[] = [];
    while (live.length - removed + blocks > held) {
      events.push({ type: "BlockRemoved", block_hashes: [live[removed++]!], medium: "GPU", group_idx: 0 });
    }
    if (removed > held) {
      live.splice(0, removed);
      removed = 0;
    }
    const chunk = Array.from({ length: chunkBlocks }, name);
    events.push(stored(chunk, null));
    let parent = chunk.at(-1)!;
    for (let i = 0; i < chunkBlocks; i++) {
      const block = name();
      events.push(stored([block], parent));
      parent = block;
    }
    return { blocks, events };
  };
}

async function main(load: IngestLoad): Promise<void> {
  const pub = new Publisher({ linger: 1_000, sendHighWaterMark: 1_000_000 });
  await pub.bind("tcp://127.0.0.1:*");
  const port = parentPort!;
  const write = createWriter(load);
  // Encoded beforehand: the time of the stamp is patched in when it is sent.
  const made = Array.from({ length: load.messages }, () => {
    const { blocks, events } = write();
    return { blocks, payload: encode([1.5, events, 0], { useBigInt64: true }) };
  });
  port.postMessage({ endpoint: pub.lastEndpoint });
  await new Promise((resolve) => port.once("message", resolve));
  const start = performance.now();
  let blocks = 0;
  for (const [seq, message] of made.entries()) {
    if (load.rate > 0) {
      const due = start + (1000 * blocks) / load.rate;
      while (due - performance.now() > BURST_MS) await new Promise((resolve) => setTimeout(resolve, 1));
    }
    // [ts, …]: one byte of array header, one of float64, then the number.
    new DataView(message.payload.buffer, message.payload.byteOffset).setFloat64(
      2,
      performance.timeOrigin + performance.now(),
    );
    const number = Buffer.alloc(8);
    number.writeBigUInt64BE(BigInt(seq));
    await pub.send(["", number, message.payload]);
    blocks += message.blocks;
  }
  port.postMessage({ sent: blocks, ms: performance.now() - start });
  await new Promise((resolve) => port.once("message", resolve));
  pub.close();
}

await main(workerData as IngestLoad);
