import { Worker } from "node:worker_threads";
import { workerId } from "../src/core/ids.ts";
import { findEngine } from "../src/engines/registry.ts";
import { createVocabularies } from "../src/kvcached/vocabularies.ts";
import { ZmqSource } from "../src/kvcached/zmq-source.ts";
import { applyEvents } from "../src/kvindex/apply-events.ts";
import { EventShape } from "../src/kvindex/event-shape.ts";
import { createPrefixIndex } from "../src/kvindex/run-index.ts";
import type { IngestLoad } from "./ingest-publisher.ts";
import { type BenchFigure, type BenchResult, figure, machine, printResult } from "./result.ts";

const MODEL = new URL("../test/fixtures/models/smollm2", import.meta.url).pathname;
const CAP_BYTES = 2 ** 30;
const HELD_BLOCKS = 200_000;
const CHUNK_BLOCKS = 16;
/** The goal, and half of it, at which delays are measured. */
const GOAL_BLOCKS_PER_S = 300_000;
const RUNS = 3;

const clock = {
  now: () => performance.now(),
  wall: () => Date.now(),
  after(ms: number, fn: () => void) {
    const timer = setTimeout(fn, ms);
    return () => clearTimeout(timer);
  },
};

interface Ingested {
  readonly blocks: number;
  /** CPU of this thread, from the first message to the last, and time by the clock. */
  readonly cpuMs: number;
  readonly wallMs: number;
  /** Sent to visible, each message, in milliseconds. */
  readonly delays: readonly number[];
  /** The longest time that the event loop did not turn. */
  readonly stallMs: number;
}

/** One engine's events through socket, decoder, state machine and vocabulary into an index, as kvcached takes them. */
export async function ingestOnce(load: IngestLoad): Promise<Ingested> {
  const { vocabulary } = await createVocabularies({}).of({ models: ["smollm2"], tokenizer: { dir: MODEL } });
  const publisher = new Worker(new URL("./ingest-publisher.ts", import.meta.url), {
    workerData: { ...load, vocabulary: vocabulary.size },
  });
  const said = <T>() => new Promise<T>((resolve) => publisher.once("message", resolve));
  const { endpoint } = await said<{ endpoint: string }>();
  const index = createPrefixIndex({ capBytes: CAP_BYTES, seed: 1 });
  const slot = index.addWorker(workerId("w"));
  const shape = new EventShape(16);
  const { decodeEvents: decode, decodeEventsInSteps: steps } = findEngine("vllm");
  const delays: number[] = [];
  let blocks = 0;
  let connected: () => void = () => {};
  const ready = new Promise<void>((resolve) => (connected = resolve));
  const source = new ZmqSource({
    endpoint,
    replay: undefined,
    topic: "",
    decode: decode!,
    ...(steps === undefined ? {} : { steps }),
    clock,
    inPieces: true,
    apply(batch) {
      blocks += applyEvents(index, slot, batch, (ids, n) => vocabulary.decodeBlocks(ids, n), shape).stored;
      delays.push(performance.timeOrigin + performance.now() - batch.ts);
    },
    clear: (why) => {
      throw new Error(`cleared: ${why}`);
    },
    changed: (state) => state.at === "live" && connected(),
  });
  source.start();
  await ready;
  const stall = watchStalls();
  const [start, cpu] = [performance.now(), cpuMs()];
  publisher.postMessage("go");
  const { sent } = await said<{ sent: number }>();
  while (blocks < sent) await new Promise((resolve) => setTimeout(resolve, 1));
  const result = { blocks, cpuMs: cpuMs() - cpu, wallMs: performance.now() - start, delays, stallMs: stall() };
  source.close();
  publisher.postMessage("end");
  await publisher.terminate();
  return result;
}

/** Node 22 tells the whole process's CPU time only. */
function cpuMs(): number {
  const { user, system } = process.threadCpuUsage?.() ?? process.cpuUsage();
  return (user + system) / 1000;
}

function watchStalls(): () => number {
  let [last, longest] = [performance.now(), 0];
  const timer = setInterval(() => {
    const now = performance.now();
    longest = Math.max(longest, now - last - 1);
    last = now;
  }, 1);
  return () => {
    clearInterval(timer);
    return longest;
  };
}

function percentile(values: readonly number[], share: number): number {
  return values.toSorted((a, b) => a - b)[Math.floor(share * (values.length - 1))] ?? Number.NaN;
}

/**
 * From an engine's socket to the index: how many blocks a second one core takes in (as many are removed), and how long a
 * message takes to be visible at half the goal.
 */
export async function run({ json }: { readonly json: boolean }): Promise<BenchResult> {
  const load = { messages: 40_000, chunkBlocks: CHUNK_BLOCKS, held: HELD_BLOCKS, vocabulary: 0 };
  const results: BenchFigure[] = [];
  const name = `${CHUNK_BLOCKS} + ${CHUNK_BLOCKS} blocks of 16 tokens a message, as many removed`;
  const full: Ingested[] = [];
  for (let i = 0; i < RUNS; i++) full.push(await ingestOnce({ ...load, rate: 0 }));
  const paced = {
    ...load,
    messages: Math.round((GOAL_BLOCKS_PER_S / 2 / (2 * CHUNK_BLOCKS)) * 5),
    rate: GOAL_BLOCKS_PER_S / 2,
  };
  const half: Ingested[] = [];
  for (let i = 0; i < RUNS; i++) half.push(await ingestOnce(paced));
  results.push(
    figure(
      name,
      "as fast as can be",
      "blocks/s of one core",
      full.map((r) => (1000 * r.blocks) / r.cpuMs),
    ),
    figure(
      name,
      "as fast as can be",
      "blocks/s by the clock",
      full.map((r) => (1000 * r.blocks) / r.wallMs),
    ),
    figure(
      `at ${GOAL_BLOCKS_PER_S / 2} blocks/s`,
      "p50 delay",
      "ms",
      half.map((r) => percentile(r.delays, 0.5)),
    ),
    figure(
      `at ${GOAL_BLOCKS_PER_S / 2} blocks/s`,
      "p99 delay",
      "ms",
      half.map((r) => percentile(r.delays, 0.99)),
    ),
    figure(
      `at ${GOAL_BLOCKS_PER_S / 2} blocks/s`,
      "longest stall of the event loop",
      "ms",
      half.map((r) => r.stallMs),
    ),
    figure(
      `at ${GOAL_BLOCKS_PER_S / 2} blocks/s`,
      "share of a core",
      "%",
      half.map((r) => (100 * r.cpuMs) / r.wallMs),
    ),
  );
  const result: BenchResult = { bench: "ingest", results, machine: machine() };
  printResult(result, json);
  return result;
}
