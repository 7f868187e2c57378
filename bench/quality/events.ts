import { encode } from "@msgpack/msgpack";
import { Publisher } from "zeromq";
import type { QualityEngine } from "./engine.ts";
import type { TokenForm } from "./serve.ts";
import { tokenize } from "./trace.ts";

const WORD_BYTES = 6;

/** Publish an engine's KV events as vLLM does (ZMQ PUB: topic, sequence, msgpack). Its jobs must have their text. */
export async function publishEvents(engine: QualityEngine, port: number, form: TokenForm): Promise<void> {
  const publisher = new Publisher({ sendHighWaterMark: 1_000_000 });
  await publisher.bind(`tcp://127.0.0.1:${port}`);
  let sequence = 0n;
  let sent: Promise<void> = Promise.resolve();
  const send = (event: object): void => {
    const number = Buffer.alloc(8);
    number.writeBigUInt64BE(sequence++);
    const payload = encode([Date.now() / 1000, [event], 0], { useBigInt64: true });
    // One after the other: a socket takes one message at a time.
    sent = sent.then(() => publisher.send(["", number, payload]));
  };
  const { blockTokens } = engine.size;
  engine.onStored = (job, places) => {
    const tokens = tokensOf(job.text ?? "", form);
    const size = form === "bytes" ? blockTokens * WORD_BYTES : blockTokens;
    for (const [first, last] of runs(places)) {
      send({
        type: "BlockStored",
        block_hashes: job.blocks.slice(first, last + 1).map(BigInt),
        parent_block_hash: first === 0 ? null : BigInt(job.blocks[first - 1]!),
        token_ids: tokens.slice(first * size, (last + 1) * size),
        block_size: size,
        lora_id: null,
        medium: "GPU",
        lora_name: null,
      });
    }
  };
  engine.onRemoved = (names) => send({ type: "BlockRemoved", block_hashes: names.map(BigInt), medium: "GPU" });
}

/** Every word with the space after it, so that all blocks have as many bytes. */
function tokensOf(text: string, form: TokenForm): number[] {
  return form === "bytes" ? [...Buffer.from(`${text} `)] : tokenize(text);
}

/** Places that follow one another, as [first, last]. */
function* runs(places: readonly number[]): Generator<readonly [number, number]> {
  let first = 0;
  for (let i = 1; i <= places.length; i++) {
    if (i < places.length && places[i] === places[i - 1]! + 1) continue;
    yield [places[first]!, places[i - 1]!];
    first = i;
  }
}
