import assert from "node:assert/strict";
import type { ModelDemand, ModelLoader } from "../../src/core/model-loader.ts";
import type { WorkerInfo } from "../../src/core/worker.ts";
import type { RouterOptions } from "../../src/router/create-router.ts";
import { startTestRouter, type TestRouter, testWorker } from "../../src/router/testing/test-router.ts";
import { HUNG_MS, RawClient } from "./raw-client.ts";
import { good, type RawEngine, type Script, startRawEngine } from "./raw-engine.ts";

/** A router before engines `a` and `b` (and `c` where asked for), asked in turn, `a` first. */
export interface Rig extends TestRouter {
  readonly a: RawEngine;
  readonly b: RawEngine;
  readonly c: RawEngine;
  /** A new connection to the router. */
  client(): Promise<RawClient>;
  /** A request on a connection of its own. */
  ask(bytes: string | Buffer): Promise<RawClient>;
  /** Change what the directory says of a worker. */
  set(id: "a" | "b" | "c", over: Partial<WorkerInfo>): void;
  readonly demand: ModelDemand[][];
}

export interface RigOptions {
  readonly workers?: Partial<WorkerInfo>;
  readonly settings?: Partial<RouterOptions["settings"]>;
  /** Three engines instead of two. */
  readonly three?: boolean;
  /** With somebody who would load models. */
  readonly loader?: boolean;
}

/** Short, but long beside what a busy machine needs for an answer. */
export const LIMITS = { firstTokenMs: 2_000, answerMs: 2_000, stallMs: 2_000, continueStreams: false };
export const LONG = { firstTokenMs: 60_000, answerMs: 60_000, stallMs: 60_000, continueStreams: false };

/** One thing that goes wrong, and what its client must see. */
export interface FaultCase {
  readonly name: string;
  /** What the client sees, in words: the table's second column. */
  readonly sees: string;
  readonly rig?: RigOptions;
  /** The cases' own limits are short. */
  readonly short?: boolean;
  readonly a?: Script;
  readonly b?: Script;
  readonly c?: Script;
  run(rig: Rig): Promise<void>;
}

/**
 * Run one case, and see that nothing is left of it: no booking, no client, no connection to an engine.
 * @param threads how many have the clients' connections; 0: the router's own
 * @throws AssertionError saying what was seen instead
 */
export async function runCase(test: FaultCase, threads = 0): Promise<void> {
  const scripts = [test.a, test.b, test.c].map((script) => script ?? good);
  const engines = await Promise.all(scripts.map((script) => startRawEngine(script)));
  const ids = test.rig?.three === true ? (["a", "b", "c"] as const) : (["a", "b"] as const);
  const workers = ids.map((id, i) => testWorker(id, engines[i]!.url, test.rig?.workers));
  const demand: ModelDemand[][] = [];
  const loader: ModelLoader = {
    demand: (_router, asked) => void demand.push([...asked.models]),
    load: async () => [],
    unload: async () => [],
  };
  const router = await startTestRouter(
    workers,
    { policy: "round_robin", answers: test.short === true ? LIMITS : LONG, ...test.rig?.settings },
    undefined,
    test.rig?.loader === true ? loader : undefined,
    threads === 0 ? {} : { threads: { count: threads, env: {} } },
  );
  const clients: RawClient[] = [];
  const client = async (): Promise<RawClient> => {
    const one = await RawClient.open(router.router.address.port);
    clients.push(one);
    return one;
  };
  const [a, b, c] = engines as [RawEngine, RawEngine, RawEngine];
  const rig: Rig = {
    ...router,
    ...{ a, b, c, client, demand },
    async ask(bytes) {
      const one = await client();
      one.send(bytes);
      return one;
    },
    set: (id, over) => router.directory.set(testWorker(id, { a, b, c }[id].url, { ...test.rig?.workers, ...over })),
  };
  try {
    await test.run(rig);
    for (const one of clients) one.socket.destroy();
    await nothingLeft(rig);
  } finally {
    for (const one of clients) one.socket.destroy();
    await rig.router.close();
  }
  try {
    // What the router closed is closed on the other side too.
    await until("no connection to an engine", () => engines.every(({ sockets }) => sockets.size === 0));
  } finally {
    await Promise.all(engines.map((engine) => engine.kill()));
  }
}

/** All counters that the admin port shows are zero again. */
export async function nothingLeft(rig: Pick<Rig, "admin">): Promise<void> {
  let left: string[] = [];
  await until(
    () => `no booking left: ${left.join(", ")}`,
    async () => {
      left = await counters(rig);
      return left.length === 0;
    },
  );
}

async function counters({ admin }: Pick<Rig, "admin">): Promise<string[]> {
  const left: string[] = [];
  const note = (name: string, value: unknown): void => {
    if (typeof value === "number" && value !== 0) left.push(`${name} = ${value}`);
  };
  const status = (await (await fetch(`${admin}/v1/cgn/status`)).json()) as {
    workers: { id: string; load: Record<string, unknown> }[];
    models: Record<string, unknown>[];
  };
  for (const { id, load } of status.workers) for (const key of LOADS) note(`${id} ${key}`, load[key]);
  for (const model of status.models) for (const key of MODEL_COUNTS) note(key, model[key]);
  const metrics = await (await fetch(`${admin}/metrics`)).text();
  for (const [, name, value] of metrics.matchAll(GAUGES)) note(name!, Number(value));
  return left;
}

const LOADS = ["inFlight", "queuedTokens", "streams"];
const MODEL_COUNTS = ["running", "queued", "waitingForLoad"];
const GAUGES =
  /^(cgn_router_(?:connections|worker_inflight|admission_inflight|load_waiting)(?:\{[^}]*\})?) ([\d.e+-]+)$/gm;

/** Wait for a condition. @throws AssertionError when it does not come true: something hangs */
export async function until(what: string | (() => string), condition: () => boolean | Promise<boolean>): Promise<void> {
  const started = performance.now();
  while (!(await condition())) {
    assert(
      performance.now() - started < HUNG_MS,
      `hung: not within ${HUNG_MS} ms: ${typeof what === "string" ? what : what()}`,
    );
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
