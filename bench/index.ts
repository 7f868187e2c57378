import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { ASKED, type Event, type EventOptions, REMOVED, readEvents, STORED, writeEvents } from "./event-file.ts";
import { cpuMs, IndexUnderTest, type Input, longestCall } from "./index-under-test.ts";
import { buildPeers, PEER_INDEXES, runPeer } from "./peers.ts";
import { type BenchFigure, type BenchResult, figure, machine, printResult } from "./result.ts";
import { readTrace, type Trace } from "./trace.ts";

const ASKED_BLOCKS = 512;
/** Prompts of a round of questions. */
const MOST_ASKED = 3000;
const ROUNDS = 5;
const REPEATS = 3;
const UNLIMITED = 1e9;
const WORK = join(import.meta.dirname, "..", ".cache", "bench");

export interface IndexBenchOptions {
  readonly json: boolean;
  /** A small part of it, without the peers. */
  readonly quick?: boolean;
  /** `updates`, `questions` or `snapshots` alone; all when there is none. */
  readonly only?: readonly string[];
  /** A trace of JSON lines with `hash_ids`. */
  readonly trace?: string | undefined;
}

/** Workloads that peers run too: [name, what is in the event file, whether stored and removed are interleaved]. */
const UPDATES: readonly (readonly [string, EventOptions, boolean])[] = [
  ["16 workers, unlimited caches", { workers: 16, cacheChunks: UNLIMITED, drain: true }, false],
  ["64 workers, unlimited caches", { workers: 64, cacheChunks: UNLIMITED, drain: true }, false],
  ["16 workers, LRU of 65,536 blocks", { workers: 16, cacheChunks: 2048 }, true],
  ["64 workers, LRU of 32,768 blocks", { workers: 64, cacheChunks: 1024 }, true],
  [
    "16 workers, 1 M blocks, one an event",
    { workers: 16, cacheChunks: UNLIMITED, untilBlocks: 1e6, eventBlocks: 1 },
    true,
  ],
];

/**
 * The prefix index on a trace, each chunk of 512 tokens as 32 blocks of 16: CPU time to store, remove and match, with the blocks'
 * hashes given as to the peers, and with 64 bytes a block to hash; memory; the longest call; saving and loading.
 */
export async function run(options: IndexBenchOptions): Promise<BenchResult> {
  const trace = readTrace(options.trace);
  mkdirSync(WORK, { recursive: true });
  const { only = [], quick = false } = options;
  const isWanted = (part: string) => only.length === 0 || only.includes(part);
  const sizes = quick ? [[16, 1e6]] : [16, 64, 256, 1024].flatMap((workers) => [1e6, 1e7].map((n) => [workers, n]));
  const results: BenchFigure[] = [];
  if (isWanted("updates")) results.push(...updateFigures(trace, options));
  if (isWanted("questions")) {
    for (const [workers, blocks] of sizes) {
      results.push(...questionFigures(trace, workers!, blocks!));
      process.stderr.write(`Asked ${workers} workers with ${blocks! / 1e6} M blocks\n`);
    }
  }
  if (isWanted("snapshots")) results.push(...snapshotFigures(trace));
  const result: BenchResult = { bench: "index", results, machine: machine() };
  printResult(result, options.json);
  return result;
}

function eventFile<T>(trace: Trace, options: EventOptions, use: (path: string) => T): T {
  const path = join(WORK, `events-${process.pid}.bin`);
  try {
    writeEvents(path, trace, options);
    return use(path);
  } finally {
    rmSync(path, { force: true });
  }
}

function updateFigures(trace: Trace, { quick = false }: IndexBenchOptions): BenchFigure[] {
  const built = quick ? undefined : buildPeers();
  if (built !== undefined && "missing" in built) process.stderr.write(`No peers: ${built.missing}\n`);
  return UPDATES.slice(0, quick ? 1 : UPDATES.length).flatMap(([name, options, mixed]) =>
    eventFile(trace, options, (path) => {
      const own = ownUpdates(`${trace.name}, ${name}`, readEvents(path), options.workers, mixed);
      if (built === undefined || "missing" in built) return own;
      return [...own, ...PEER_INDEXES.flatMap((peer) => peerUpdates(built.program, peer, name, path, mixed))];
    }),
  );
}

function ownUpdates(name: string, events: readonly Event[], workers: number, mixed: boolean): BenchFigure[] {
  const updates = events.filter(({ kind }) => kind !== ASKED);
  const phases: readonly (readonly [string, readonly Event[]])[] = mixed
    ? [["stored and removed", updates]]
    : [
        ["stored", updates.filter(({ kind }) => kind === STORED)],
        ["removed", updates.filter(({ kind }) => kind === REMOVED)],
      ];
  const prompts = events.filter(({ kind, contents }) => kind === ASKED && contents.length >= ASKED_BLOCKS);
  const asked = prompts.map(({ contents }) => contents.subarray(0, ASKED_BLOCKS));
  const figures: BenchFigure[] = [];
  for (const input of ["hashes", "bytes"] as const) {
    const ns: number[][] = phases.map(() => []);
    const us: number[] = [];
    const first: number[] = [];
    let bytesPerBlock = 0;
    for (let repeat = 0; repeat < REPEATS; repeat++) {
      const index = new IndexUnderTest(workers, input);
      for (const [i, [, list]] of phases.entries()) {
        ns[i]!.push(index.apply(list));
        if (i > 0) continue;
        first.push(index.ask(asked, true));
        us.push(...Array.from({ length: ROUNDS }, () => index.ask(asked)));
        bytesPerBlock = index.bytesPerBlock();
      }
    }
    const label = input === "hashes" ? "hashes given" : "64 bytes a block hashed";
    for (const [i, [phase]] of phases.entries()) {
      figures.push(figure(name, `${phase}, ${label}`, "ns/block", ns[i]!));
      figures.push(
        figure(
          name,
          `${phase}, ${label}`,
          "blocks/s",
          ns[i]!.map((value) => 1e9 / value),
        ),
      );
    }
    figures.push(figure(name, `match of ${ASKED_BLOCKS} blocks, each prompt once, ${label}`, "us", first));
    figures.push(figure(name, `match of ${ASKED_BLOCKS} blocks, ${label}`, "us", us));
    if (input === "hashes") figures.push(figure(name, "memory", "bytes/block", [bytesPerBlock]));
  }
  return figures;
}

function peerUpdates(
  program: string,
  peer: (typeof PEER_INDEXES)[number],
  name: string,
  path: string,
  mixed: boolean,
): BenchFigure[] {
  const runs = Array.from({ length: REPEATS }, () => runPeer(program, peer, path, mixed));
  return runs[0]!.map((first, i) => {
    const of = (pick: (one: typeof first) => number | undefined) => runs.map((run) => pick(run[i]!) ?? Number.NaN);
    if (first.nsPerBlock === undefined)
      return figure(
        `${peer}: ${name}`,
        first.name,
        "us",
        of(({ us }) => us),
      );
    return figure(
      `${peer}: ${name}`,
      first.name,
      "ns/block",
      of(({ nsPerBlock }) => nsPerBlock),
    );
  });
}

/** Questions to an index that holds so many blocks, the longest call until then, and memory. */
function questionFigures(trace: Trace, workers: number, blocks: number): BenchFigure[] {
  const name = `${trace.name}, ${workers} workers, ${blocks / 1e6} M blocks`;
  const options = { workers, cacheChunks: UNLIMITED, untilBlocks: blocks };
  const events = eventFile(trace, options, readEvents);
  const long = events.filter(({ kind, contents }) => kind === ASKED && contents.length > ASKED_BLOCKS);
  const prompts = long.slice(-MOST_ASKED).map(({ contents }) => contents.subarray(0, ASKED_BLOCKS));
  const unknown = (from: number) =>
    prompts.map((contents) => contents.map((content, i) => (i < from ? content : content ^ 0x5555n)));
  const kinds: readonly (readonly [string, readonly BigUint64Array[]])[] = [
    ["all hit", prompts],
    ["half hit", unknown(ASKED_BLOCKS / 2)],
    ["miss", unknown(0)],
  ];
  const stores = events.filter(({ kind }) => kind === STORED);
  const figures: BenchFigure[] = [];
  for (const input of ["hashes", "bytes"] as const satisfies readonly Input[]) {
    const label = input === "hashes" ? "hashes given" : "64 bytes a block hashed";
    const index = new IndexUnderTest(workers, input);
    index.apply(stores);
    for (const [kind, asked] of kinds) {
      const rounds = Array.from({ length: ROUNDS }, () => index.ask(asked));
      figures.push(figure(name, `match of ${ASKED_BLOCKS} blocks, ${kind}, ${label}`, "us", rounds));
    }
    if (input === "hashes") figures.push(figure(name, "memory", "bytes/block", [index.bytesPerBlock()]));
  }
  const longest = Array.from({ length: REPEATS }, () => longestCall(new IndexUnderTest(workers, "hashes"), stores));
  figures.push(figure(name, "longest call while it fills", "ms", longest));
  return figures;
}

function snapshotFigures(trace: Trace): BenchFigure[] {
  const workers = 16;
  const events = eventFile(trace, { workers, cacheChunks: UNLIMITED, untilBlocks: 1e6 }, readEvents);
  const index = new IndexUnderTest(workers, "hashes");
  index.apply(events.filter(({ kind }) => kind === STORED));
  const saves: number[] = [];
  const loads: number[] = [];
  let longest = 0;
  let bytes = 0;
  for (let repeat = 0; repeat < REPEATS; repeat++) {
    const chunks: (readonly Uint8Array[])[] = [];
    saves.push(
      cpuMs(() => {
        for (let worker = 0; worker < workers; worker++) {
          const taken = index.save(worker);
          chunks.push(taken.chunks);
          longest = Math.max(longest, taken.longestMs);
        }
      }),
    );
    bytes = chunks.flat().reduce((sum, chunk) => sum + chunk.length, 0);
    const copy = new IndexUnderTest(workers, "hashes");
    loads.push(
      cpuMs(() => {
        for (const [worker, list] of chunks.entries()) copy.load(worker, list);
      }),
    );
    if (copy.blocks() !== index.blocks()) throw new Error(`Loaded ${copy.blocks()} of ${index.blocks()} blocks`);
  }
  const name = `${trace.name}, ${workers} workers, 1 M blocks`;
  return [
    figure(name, "save", "ms", saves),
    figure(name, "load", "ms", loads),
    figure(name, "longest step of save", "ms", [longest]),
    figure(name, "snapshot", "bytes/block", [bytes / index.blocks()]),
  ];
}
