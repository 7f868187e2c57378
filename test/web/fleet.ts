import { workerId } from "../../src/core/ids.ts";
import type { KvSourceStatus } from "../../src/core/kv-status.ts";
import type { ModelLoader } from "../../src/core/model-loader.ts";
import type { WorkerMatch } from "../../src/core/prefix-knowledge.ts";
import type { RouterOptions } from "../../src/router/create-router.ts";
import { startTestRouter, type TestRouter, testWorker } from "../../src/router/testing/test-router.ts";
import { FAILS, startPageEngine, WAITS } from "./page-engine.ts";

/** Requests that do not end by themselves, and what ends them. */
interface Waiting {
  readonly abort: AbortController;
  /** Kept: a body that nobody holds is cancelled. */
  readonly answers: Response[];
}

/** A router before engines in every state, with an alarm. */
export interface PageFleet extends TestRouter {
  /** What was asked of the loader. */
  readonly loads: readonly string[];
  readonly waiting: Waiting;
  close(): Promise<void>;
}

const SYSTEM = "You answer questions about the handbook, briefly and with the page. ".repeat(6);
const [FIRST, SECOND, DRAINED] = ["gpu-1/qwen3-8b", "gpu-2/qwen3-8b", "gpu-5/qwen3-8b"] as const;
const READY = [FIRST, SECOND, DRAINED];
const LOADING = "gpu-3/qwen3-8b";
const DEAD = "gpu-4/qwen3-8b";
const UNLOADED = "gpu-6/a-model-with-a-rather-long-name-70b";

export async function startPageFleet(more: Partial<Pick<RouterOptions, "access">> = {}): Promise<PageFleet> {
  const [first, second, drained] = await Promise.all([
    startPageEngine(0.62, cachedOf),
    startPageEngine(0.31, cachedOf),
    startPageEngine(0.04, () => ({ prompt: 118, cached: 0 })),
  ]);
  const urlOf = (id: string): string => (id === FIRST ? first : id === SECOND ? second : drained).url;
  const waiting: Waiting = { abort: new AbortController(), answers: [] };
  const loads: string[] = [];
  const note = async (what: string, name: string) => {
    loads.push(what);
    return [workerId(name)];
  };
  const loader: ModelLoader = {
    demand() {},
    load: (name) => note(`load ${name}`, name),
    unload: (name) => note(`unload ${name}`, name),
  };
  const one = (id: string, over: Parameters<typeof testWorker>[2] = {}) =>
    testWorker(id, urlOf(id), { models: ["qwen3-8b"], ...over });
  const gone = "given up after 6 starts: CUDA out of memory. Lower gpu_memory_utilization";
  const idle = { state: "unloaded", reason: "not wanted for 10 min", onDemand: true } as const;
  const workers = [
    ...READY.map((id) => one(id)),
    one(LOADING, { state: "starting", reason: "loading weights" }),
    one(DEAD, { state: "down", reason: gone }),
    one(UNLOADED, { models: [UNLOADED.slice(6)], ...idle }),
  ];
  const test = await startTestRouter(workers, {}, undefined, loader, { ...more, extras: extras() });
  test.knowledge.match = (query) => matchesOf(Buffer.from(query.prompt).toString());
  return {
    ...test,
    loads,
    waiting,
    async close() {
      waiting.abort.abort();
      await test.router.close();
      await Promise.all([first, second, drained].map((engine) => engine.close()));
    },
  };
}

/** Where a chat of the handbook was answered before, and how much of it is kept there. */
function matchesOf(prompt: string): WorkerMatch[] {
  const topic = Number(/Question (\d)/.exec(prompt)?.[1] ?? 0);
  const match = (id: string, tokens: number, tier: WorkerMatch["tier"]): WorkerMatch => ({
    worker: workerId(id),
    tokens,
    blocks: tokens / 16,
    bytes: Math.min(tokens * 4, prompt.length),
    tier,
    source: "events",
  });
  if (topic === 4) return [];
  return topic % 2 === 0 ? [match(FIRST, 96, "device")] : [match(SECOND, 80, "device"), match(FIRST, 48, "host")];
}

/** What an engine reports of such a chat: what was predicted, but of one topic. */
function cachedOf(body: string): { readonly prompt: number; readonly cached: number } {
  const topic = Number(/Question (\d)/.exec(body)?.[1] ?? 0);
  return { prompt: 118, cached: topic === 4 ? 0 : topic === 2 ? 64 : topic % 2 === 0 ? 96 : 80 };
}

/** Requests of several kinds, two that go on, one that fails, one for a model that is not there, and an engine that is drained. */
export async function makeTraffic({ url, admin, waiting }: PageFleet): Promise<void> {
  const ask = (user: string, stream: boolean, model = "qwen3-8b"): Promise<Response> => {
    const messages = [
      { role: "system", content: SYSTEM },
      { role: "user", content: user },
    ];
    const body = JSON.stringify({ model, stream, stream_options: { include_usage: true }, messages });
    return fetch(`${url}/v1/chat/completions`, { method: "POST", body, signal: waiting.abort.signal });
  };
  for (let i = 0; i < 16; i++) await (await ask(`Question ${i % 5}: what is on page ${i}?`, i % 2 === 0)).text();
  await (await ask(`Question 4: ${FAILS}`, false)).text();
  await (await ask("Question 1", false, "qwen3-9b")).text();
  for (const topic of [0, 1]) waiting.answers.push(await ask(`Question ${topic}: ${WAITS}`, true));
  await fetch(`${admin}/v1/cgn/nodes/${encodeURIComponent(DRAINED)}/drain`, { method: "POST" });
}

function extras(): NonNullable<RouterOptions["extras"]> {
  const lines = ["INFO loading weights: shard 3 of 8", "INFO loading weights: shard 4 of 8"];
  const kept = { kvOffload: "lmcache", spawned: true, starts: 1 };
  const progress = { elapsedMs: 48_000, deadlineMs: 600_000, lastLine: lines[1] };
  return {
    sources: () => READY.map((id) => source(id, id === SECOND)),
    engines: () => ({
      ...Object.fromEntries(READY.map((id) => [id, kept])),
      [LOADING]: { ...kept, progress },
      [DEAD]: { ...kept, starts: 6, crashes: "ended 6 times in 4 minutes" },
    }),
    logs: async () => lines,
    posts: { "/v1/cgn/reload": async () => ({}) },
  };
}

function source(id: string, wrong: boolean): KvSourceStatus {
  const truth = { seconds: 600, requests: 40, inFlight: 1, reportedTokens: 20_480 };
  const alarm = {
    code: "TOKENIZER_MISMATCH",
    message:
      "the parity probe found prompts that this engine tokenises otherwise. Name the tokenizer it was started with",
    forMs: 240_000,
  } as const;
  return {
    worker: workerId(id),
    model: "qwen3-8b",
    type: "events",
    state: "live",
    detail: "",
    events: 1_532,
    blocks: 40_960,
    blocksStored: 41_000,
    blocksRemoved: 40,
    gaps: wrong ? 2 : 0,
    restarts: 0,
    malformed: 0,
    lastSequence: 1_531,
    predictedTokens: 20_400,
    reportedTokens: 20_480,
    parity: wrong ? 'differs at token 7: the engine says 151644, the files say 27 ("<|im_start|>")' : "equal",
    origin: "agent",
    truth: [{ ...truth, exact: wrong ? 11 : 39, unexplained: wrong ? 28 : 0, predictedTokens: wrong ? 1_024 : 20_400 }],
    alarms: wrong ? [alarm] : [],
  };
}

/** A day as a router would have kept it: charts of a fleet that was just started show nothing. */
export function inventedDay(nowMs: number): object {
  const stepMs = 240_000;
  const points = 360;
  const wave = (low: number, high: number, shift = 0): (number | null)[] =>
    Array.from({ length: points }, (_, i) => {
      const day = (1 - Math.cos(((i + shift) / points) * 2 * Math.PI)) / 2;
      const value = low + (high - low) * (0.85 * day + 0.15 * Math.abs(Math.sin(i * 1.7 + shift)));
      return i > 90 && i < 110 ? null : value;
    });
  return {
    fromMs: nowMs - stepMs * points,
    stepMs,
    columns: {
      requestsPerS: wave(2, 41),
      errorsPerS: wave(0, 0.4, 60),
      refusedPerS: wave(0, 1.2, 30),
      generatedPerS: wave(300, 9_400),
      hitReal: wave(0.4, 0.82, 90),
      hitPredicted: wave(0.39, 0.8, 90),
      ttftP50: wave(60, 240),
      ttftP90: wave(150, 900, 10),
      itlP50: wave(9, 24),
      itlP90: wave(14, 41),
      inFlight: wave(3, 96),
      queued: wave(0, 12, 20),
    },
  };
}
