import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { createMemoryDirectory } from "../src/cluster/memory-directory.ts";
import { nodeId, workerId } from "../src/core/ids.ts";
import { SILENT_LOG } from "../src/core/log.ts";
import type { TokenizerSource, WorkerInfo } from "../src/core/worker.ts";
import { createKvcached } from "../src/kvcached/service.ts";
import { createRouter, type Router } from "../src/router/create-router.ts";
import { createModelTemplates } from "../src/router/model-templates.ts";
import { createMetrics } from "../src/telemetry/metrics.ts";
import { type BenchResult, figure, machine, printResult } from "./result.ts";
import { Dice } from "./router-fuzz/dice.ts";
import { startFuzzEngine } from "./router-fuzz/engine.ts";
import { type FuzzEnd, FuzzLane } from "./router-fuzz/lane.ts";
import { type FuzzRequest, makeRequest } from "./router-fuzz/requests.ts";

const SMOLLM = new URL("../test/fixtures/models/smollm2", import.meta.url).pathname;
/** Clients at once. Where engines are wrong most of the time is waiting. */
const LANES = { requests: 48, answers: 512, both: 512 } as const;
const MIB = 2 ** 20;
/** Who waits so long for an answer, or for the end of a connection, has found a hang. */
const HANG_MS = 240_000;
/** How long an engine that is wrong may be silent. */
const SILENT_MS = 3_000;

const clock = {
  now: () => performance.now(),
  wall: () => Date.now(),
  after(ms: number, fn: () => void) {
    const timer = setTimeout(fn, ms);
    return () => clearTimeout(timer);
  },
};

/** What is spoilt: the requests, the engines' answers, or both. */
type Wild = "requests" | "answers" | "both";

interface Tally {
  readonly statuses: Map<number, number>;
  readonly wrong: string[];
  asked: number;
}

/**
 * Spoilt requests and spoilt answers of engines, on sockets, through a whole router (templates, index, breakers, continued
 * streams): it must not crash, hang, answer 5xx by its own fault, keep bookings, or grow.
 *
 * `--count` requests in all (1,000,000), a third of them each way, or one way with `--only requests|answers|both`; `--seed` repeats a
 * run's requests.
 */
export async function run(options: {
  readonly json: boolean;
  readonly only?: readonly string[];
  readonly count?: string;
  readonly seed?: string;
}): Promise<BenchResult> {
  const count = Number(options.count ?? 1_000_000);
  const seed = Number(options.seed ?? 20_261_130);
  const crashes: unknown[] = [];
  const crashed = (e: unknown): void => {
    crashes.push(e);
    process.stderr.write(`crash: ${e instanceof Error ? e.stack : String(e)}\n`);
  };
  process.on("uncaughtException", crashed).on("unhandledRejection", crashed);
  const results = [];
  const wilds = (["requests", "answers", "both"] as const).filter(
    (w) => !options.only?.length || options.only.includes(w),
  );
  for (const wild of wilds) {
    const each = Math.ceil(count / wilds.length);
    const { tally, grownMiB, seconds, left } = await fuzz(wild, each, seed, options.json);
    const one = (metric: string, unit: string, value: number) => figure(`spoilt ${wild}`, metric, unit, [value]);
    const of = (from: number, to: number): number =>
      [...tally.statuses].reduce((sum, [status, n]) => sum + (status >= from && status < to ? n : 0), 0);
    results.push(
      one("requests", "", tally.asked),
      one("wrong", "", tally.wrong.length),
      one("crashes", "", crashes.length),
      one("left", "bookings", left),
      one("answers 2xx", "", of(200, 300)),
      one("answers 4xx", "", of(400, 500)),
      one("answers 5xx", "", of(500, 600)),
      one("connection ended", "", of(0, 1)),
      one("memory grown since a tenth of them", "MiB", grownMiB),
      one("requests a second", "1/s", tally.asked / seconds),
    );
    if (crashes.length + tally.wrong.length + left > 0) process.exitCode = 1;
  }
  process.off("uncaughtException", crashed).off("unhandledRejection", crashed);
  const result: BenchResult = { bench: "router-fuzz", results, machine: machine() };
  printResult(result, options.json);
  return result;
}

async function fuzz(wild: Wild, count: number, seed: number, quiet: boolean) {
  const engineDice = new Dice(seed ^ 0x5bd1e995);
  const engines = await Promise.all([1, 2, 3].map(() => startFuzzEngine(engineDice, wild !== "requests")));
  const { router, close } = await startRouter(
    engines.map(({ url }) => url),
    wild,
  );
  const tally: Tally = { statuses: new Map(), wrong: [], asked: 0 };
  const dice = new Dice(seed);
  const started = performance.now();
  let warm = 0;
  const work = async (): Promise<void> => {
    const lane = new FuzzLane(router.address.port);
    while (tally.asked < count && tally.wrong.length < 10) {
      const n = tally.asked++;
      if (n === Math.floor(count / 10)) warm = heldBytes();
      if (!quiet && n % 20_000 === 0)
        process.stderr.write(`spoilt ${wild}: ${n} of ${count}, ${Math.round(process.memoryUsage.rss() / MIB)} MiB\n`);
      const request = makeRequest(dice, wild !== "answers");
      note(tally, wild, request, await lane.ask(request.bytes, request.valid, HANG_MS));
    }
    lane.close();
  };
  await Promise.all(Array.from({ length: LANES[wild] }, work));
  const seconds = (performance.now() - started) / 1_000;
  const left = await bookingsLeft(router);
  const grownMiB = (heldBytes() - warm) / MIB;
  await close();
  for (const engine of engines) engine.close();
  return { tally, grownMiB, seconds, left };
}

/** Clients that left have their bookings returned soon; what is there a minute later is there for ever. */
async function bookingsLeft({ core }: Router): Promise<number> {
  for (let i = 0; ; i++) {
    const left = ["a", "b", "c"].reduce((sum, id) => sum + core.loads.of(workerId(id)).inFlight, 0);
    if (left === 0 || i === 600) return left;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** What must not be: a fault of the router, a hang, or a 5xx to what an engine would have answered. */
function note(tally: Tally, wild: Wild, { bytes }: FuzzRequest, end: FuzzEnd): void {
  const { status, body } = end;
  tally.statuses.set(status, (tally.statuses.get(status) ?? 0) + 1);
  // Ours alone: where an engine's own answer of any status broke off, ours stands behind it, and so does the answer to what came behind the request.
  const [first = ""] = body.split(/HTTP\/1\.1 \d{3} /);
  const own = first.startsWith("{") && first.includes('"src":"cgn"');
  const bug = body.includes('"src":"cgn"') && /"code":"bug"/.test(body);
  const hung = status === -1;
  // 501 is an answer to what is asked; 502 to 504 tell of an engine that is wrong.
  const fault = status >= 500 && status !== 501 && own && (wild === "requests" || status === 500 || status === 503);
  if (!bug && !hung && !fault) return;
  tally.wrong.push(`${status}`);
  process.stderr.write(
    `wrong: ${JSON.stringify({ status, body: body.slice(0, 500), bytes: bytes.slice(0, 2_000) })}\n`,
  );
}

async function startRouter(urls: readonly string[], wild: Wild): Promise<{ router: Router; close(): Promise<void> }> {
  const worker = (id: string, url: string, model: string, tokenizer: TokenizerSource, over: Partial<WorkerInfo>) => ({
    ...{ id: workerId(id), node: nodeId(id), url, models: [model], tokenizer },
    ...({ kind: "vllm", role: "both", state: "ready", reason: "", epoch: 1 } as const),
    kv: { type: "history", entries: 64 } as const,
    traits: { usageOnlyWhenAsked: true, stripKvTransferParams: true, reportsCachedTokens: true },
    ...over,
  });
  const directory = createMemoryDirectory([
    worker("a", urls[0]!, "m", { bytes: true }, {}),
    worker("b", urls[1]!, "m", { bytes: true }, { kind: "mlx", traits: { foldNonStreaming: true } }),
    worker("c", urls[2]!, "s", { dir: SMOLLM }, {}),
  ]);
  const metrics = createMetrics({ processMetrics: false });
  const kvcached = createKvcached({ clock, env: {}, log: SILENT_LOG, metrics, capBytes: 8 * MIB, seed: 1 });
  const unfollow = kvcached.follow(directory);
  const ms = wild === "requests" ? HANG_MS : SILENT_MS;
  const router = createRouter({
    settings: {
      listenHttp: { host: "127.0.0.1", port: 0 },
      listenAdmin: { host: "127.0.0.1", port: 0 },
      nodeId: "fuzz",
      policy: "ttft",
      maxBodyBytes: MIB,
      scoreWeights: { kv: 0.55, load: 0.25, power: 0.1, capacity: 0.1 },
      admission: {},
      loadWait: { timeoutMs: 1_000, keepAliveMs: 500 },
      answers: { firstTokenMs: ms, answerMs: ms, stallMs: ms, continueStreams: wild !== "requests" },
    },
    directory,
    knowledge: kvcached,
    renderers: createModelTemplates({ env: {}, clock, log: SILENT_LOG }),
    clock,
    log: SILENT_LOG,
    metrics,
  });
  await router.start();
  return {
    router,
    async close() {
      await router.close();
      unfollow();
      kvcached.close();
    },
  };
}

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

/** What is held after a collection, buffers outside the heap included. */
function heldBytes(): number {
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
