import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { findEngine } from "../src/engines/registry.ts";
import { sglangFrames, sglangLive } from "../src/kvcached/testing/fixtures.ts";
import { fuzzFrames } from "../src/kvcached/testing/fuzz-frames.ts";
import { createVocabularies } from "../src/kvcached/vocabularies.ts";
import { createPrefixIndex } from "../src/kvindex/run-index.ts";
import { type BenchResult, figure, machine, printResult } from "./result.ts";

const FIXTURES = new URL("../test/fixtures/", import.meta.url).pathname;
const CAP_BYTES = 64 * 2 ** 20;
const MIB = 2 ** 20;

/** Every payload of every capture of vLLM. */
function vllmPayloads(): Uint8Array[] {
  const folder = join(FIXTURES, "vllm");
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) =>
    /frames\w*\.jsonl$/.test(name),
  );
  return files.flatMap((name) =>
    readFileSync(join(folder, name), "utf8")
      .trim()
      .split("\n")
      .map((line) => Buffer.from((JSON.parse(line) as { payload_b64: string }).payload_b64, "base64")),
  );
}

/**
 * Hostile frames (captures, spoilt) through decoder, state machine and index: nothing may be thrown, memory must not grow, and
 * the source ends as one that is not listened to, with the reason.
 */
export async function run({
  json,
  frames,
}: {
  readonly json: boolean;
  readonly frames?: string;
}): Promise<BenchResult> {
  const count = Number(frames ?? 1_000_000);
  const dir = join(FIXTURES, "models", "smollm2");
  const { vocabulary } = await createVocabularies({}).of({ models: ["smol"], tokenizer: { dir } });
  const kinds = [
    { kind: "vllm" as const, payloads: vllmPayloads() },
    {
      kind: "sglang" as const,
      payloads: [
        ...sglangLive().map(({ payload }) => payload),
        ...sglangFrames().frames.map(({ payload_b64 }) => Buffer.from(payload_b64, "base64")),
      ],
    },
  ];
  const results = [];
  for (const { kind, payloads } of kinds) {
    const index = createPrefixIndex({ capBytes: CAP_BYTES, seed: 1 });
    const fuzz = fuzzFrames({
      payloads,
      decode: findEngine(kind).decodeEvents!,
      vocabulary: (ids, n) => vocabulary.decodeBlocks(ids, n),
      index,
      seed: 20_261_129,
      now: () => performance.now(),
    });
    const each = Math.ceil(count / kinds.length);
    const start = performance.now();
    let warm = 0;
    let report = fuzz.next().value;
    for (let i = 1; i < each; i++) {
      report = fuzz.next().value;
      if (i === Math.floor(each / 10)) warm = heldBytes();
      if (i % 1_000 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    const ms = performance.now() - start;
    const grown = (heldBytes() - warm) / MIB;
    if (report.crashes.length > 0) throw new Error(`${report.crashes.length} crashes, the first: ${report.crashes[0]}`);
    if (report.failures === 0) throw new Error("the source was never marked as bad");
    const name = `${kind}, ${each} frames of ${payloads.length} captured ones`;
    const one = (metric: string, unit: string, value: number) => figure(name, metric, unit, [value]);
    results.push(
      one("crashes", "", report.crashes.length),
      one("frames", "1/s", (1000 * each) / ms),
      one("understood", "%", (100 * report.decoded) / each),
      one("source marked as bad", "times", report.failures),
      one("worker cleared", "times", report.clears),
      one("memory grown since a tenth of them", "MiB", grown),
      one("longest frame", "ms", report.longestMs),
      one("index", "MiB", index.stats().bytes / MIB),
    );
    if (!json) console.log(`${kind}: in the end ${report.state.at}: ${report.state.detail}`);
  }
  const result: BenchResult = { bench: "fuzz", results, machine: machine() };
  printResult(result, json);
  return result;
}

/** What is held after a collection (where the collector can be called), buffers outside the heap included. */
function heldBytes(): number {
  (globalThis as { gc?: () => void }).gc?.();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
