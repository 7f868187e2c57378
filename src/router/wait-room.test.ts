import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { WorkerId } from "../core/ids.ts";
import type { Demand, ModelLoader } from "../core/model-loader.ts";
import type { WorkerInfo } from "../core/worker.ts";
import { type FakeEngine, startFakeEngine } from "./testing/fake-engine.ts";
import { startTestRouter, type TestRouter, testWorker } from "./testing/test-router.ts";

/** Keeps what routers told it. */
class Loader implements ModelLoader {
  readonly said: Demand[] = [];
  demand(_router: string, demand: Demand): void {
    this.said.push(demand);
  }
  async load(): Promise<readonly WorkerId[]> {
    return [];
  }
  async unload(): Promise<readonly WorkerId[]> {
    return [];
  }
  get waiting(): number {
    return this.said.at(-1)?.models[0]?.waiting ?? 0;
  }
}

let engine: FakeEngine;
let loader: Loader;
let test: TestRouter | undefined;
beforeEach(async () => {
  engine = await startFakeEngine();
  loader = new Loader();
});
afterEach(async () => {
  await test?.router.close();
  test = undefined;
  await engine.close();
});

const worker = (over: Partial<WorkerInfo> = {}): WorkerInfo =>
  testWorker("a", engine.url, { state: "unloaded", reason: "loads with a request", onDemand: true, ...over });

async function start(
  loadWait: { timeoutMs: number; keepAliveMs: number },
  over: Partial<WorkerInfo> = {},
): Promise<TestRouter> {
  test = await startTestRouter([worker(over)], { loadWait }, undefined, loader);
  return test;
}
const LONG = { timeoutMs: 20_000, keepAliveMs: 10_000 };

const post = (
  url: string,
  stream: boolean,
  headers: Record<string, string> = {},
  signal?: AbortSignal,
): Promise<Response> =>
  fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify({ model: "m", stream, messages: [{ role: "user", content: "hi" }] }),
    ...(signal === undefined ? {} : { signal }),
  });

/** Wait until something holds; a test that waits too long fails by its own limit. */
async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 5));
}

describe("a model that is loaded on demand", () => {
  it("lets requests wait, tells the agent how many, and sends them in the order in which they came", async () => {
    const { url, admin, directory } = await start(LONG);
    const answers: Promise<Response>[] = [];
    for (let n = 0; n < 3; n++) {
      answers.push(post(url, false, { "x-request-id": `r${n}` }));
      await until(() => loader.waiting === n + 1);
    }
    expect(engine.seen).toEqual([]);
    expect(loader.said.at(-1)?.models[0]?.oldestMs).toBeGreaterThan(0);
    directory.set(worker({ state: "ready" }));
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([200, 200, 200]);
    expect((await (await fetch(`${admin}/v1/cgn/decisions/r0`)).json()) as object).toHaveProperty("waitedMs");
    expect(engine.seen.map(({ headers }) => headers["x-request-id"])).toEqual(["r0", "r1", "r2"]);
    await until(() => loader.said.at(-1)?.workers[0]?.uses === 3 && loader.said.at(-1)?.workers[0]?.inFlight === 0);
    expect(loader.said.at(-1)).toMatchObject({ models: [], workers: [{ worker: "a", uses: 3, chosen: true }] });
  });

  it("says that a held worker can get no more requests", async () => {
    const { directory } = await start(LONG, { state: "ready" });
    await until(() => loader.said.at(-1)?.workers[0]?.chosen === true);
    directory.set(worker({ state: "draining" }));
    await until(() => loader.said.at(-1)?.workers[0]?.chosen === false);
  });

  it("answers 503 with Retry-After and the reason when it is not loaded in time", async () => {
    const { url } = await start({ timeoutMs: 80, keepAliveMs: 10_000 });
    for (const stream of [false, true]) {
      const answer = await post(url, stream);
      expect(answer.status).toBe(503);
      expect(answer.headers.get("retry-after")).toBe("10");
      expect(await answer.text()).toContain("was not loaded within 0.1 s (a unloaded: loads with a request)");
    }
    expect(loader.waiting).toBe(0);
  });

  it("takes the client's own deadline where it is shorter", async () => {
    const { url } = await start(LONG);
    const late = await post(url, false, { "x-cgn-deadline-ms": "50" });
    expect(late.status).toBe(503);
    // It said to raise [swap].queue_timeout, which was not what had passed.
    const said = await late.text();
    expect(said).toContain("not loaded within 0.1 s, the request's own x-cgn-deadline-ms");
    expect(said).toContain("or raise x-cgn-deadline-ms");
    expect(said).not.toContain("queue_timeout");
  });

  it("refuses a deadline that is none, whether anybody waits or not", async () => {
    // `x-cgn-deadline-ms: abc` was taken for no deadline at all.
    const { url, directory } = await start(LONG);
    for (const state of ["unloaded", "ready"] as const) {
      directory.set(worker({ state }));
      for (const text of ["abc", "0", "-5", "2s", ""]) {
        const answer = await post(url, false, { "x-cgn-deadline-ms": text });
        expect([answer.status, text]).toEqual([400, text]);
        expect(await answer.text()).toContain(`x-cgn-deadline-ms \\"${text}\\"`);
      }
      if (state === "ready") expect((await post(url, false, { "x-cgn-deadline-ms": "2000" })).status).toBe(200);
    }
  });

  it("lets requests wait for an engine that a reload starts anew, and refuses them when it cannot be started", async () => {
    // A reload that restarted a model's only engine answered 503 meanwhile.
    const plain = (over: Partial<WorkerInfo>): WorkerInfo => testWorker("a", engine.url, over);
    test = await startTestRouter([plain({ state: "draining", returns: true })], { loadWait: LONG }, undefined, loader);
    const { url, directory } = test;
    const first = post(url, false);
    await until(() => loader.waiting === 1);
    directory.set(plain({ state: "starting", returns: true, epoch: 2 }));
    directory.set(plain({ state: "ready", epoch: 2 }));
    expect((await first).status).toBe(200);
    directory.set(plain({ state: "down", returns: true, epoch: 2 }));
    const second = post(url, false);
    await until(() => loader.waiting === 1);
    directory.set(plain({ state: "down", reason: "given up", epoch: 3 }));
    expect((await second).status).toBe(503);
    expect(await (await second).text()).toContain("given up");
  });

  it("sends a streaming client comments, then the engine's answer", async () => {
    const { url, directory } = await start({ timeoutMs: 20_000, keepAliveMs: 30 });
    const answer = await post(url, true, { "x-request-id": "keep" });
    expect(answer.status).toBe(200);
    expect(answer.headers.get("x-request-id")).toBe("keep");
    directory.set(worker({ state: "ready" }));
    const text = await answer.text();
    expect(text).toMatch(/^: cgn waits for m to be loaded, 0 s\n\n/);
    expect(text).toContain(" Paris");
    expect(text.endsWith("data: [DONE]\n\n")).toBe(true);
  });

  it("sends errors as events once the stream has begun: too late, refused by the engine, and a dead engine", async () => {
    const { url } = await start({ timeoutMs: 150, keepAliveMs: 30 });
    const late = await (await post(url, true)).text();
    expect(late).toMatch(/data: \{"error":\{"message":"Cannot route model.*"code":"no_worker".*\}\n\n$/s);
    await test?.router.close();
    for (const [behaviour, said] of [
      [{ status: 400, body: { error: { message: "too long", type: "BadRequestError" } } }, '"too long"'],
      [{ status: 422, body: { detail: "no" } }, '"code":422'],
      ["reset", '"code":"upstream_failed"'],
    ] as const) {
      engine.behaviour = behaviour;
      const { url: again, directory } = await start({ timeoutMs: 20_000, keepAliveMs: 20 });
      const answer = await post(again, true);
      directory.set(worker({ state: "ready" }));
      const text = await answer.text();
      expect(text).toMatch(/^: .*data: \{"error":.*\}\n\n$/s);
      expect(text).toContain(said);
      await test?.router.close();
    }
  });

  it("tries another worker although comments were sent", async () => {
    const { url, directory } = await start({ timeoutMs: 20_000, keepAliveMs: 20 });
    const answer = await post(url, true);
    const dead = testWorker("dead", "http://127.0.0.1:9", { onDemand: true });
    directory.replaceAll([dead, worker({ state: "ready" })]);
    expect(await answer.text()).toContain(" Paris");
  });

  it("gives the place of a client back that leaves", async () => {
    const { url } = await start(LONG);
    const leave = new AbortController();
    const gone = post(url, true, {}, leave.signal).catch(() => "left");
    await until(() => loader.waiting === 1);
    leave.abort();
    expect(await gone).toBe("left");
    await until(() => loader.waiting === 0);
  });

  it("refuses those that wait when the load has failed", async () => {
    const { url, directory } = await start(LONG);
    const answer = post(url, false);
    await until(() => loader.waiting === 1);
    directory.set(testWorker("a", engine.url, { state: "down", reason: "given up: out of memory" }));
    expect((await answer).status).toBe(503);
    expect(await (await answer).text()).toContain("out of memory");
  });

  it("lists the model, and is ready although nothing is loaded", async () => {
    const { url, admin } = await start(LONG);
    expect(await (await fetch(`${url}/v1/models`)).json()).toMatchObject({ data: [{ id: "m" }] });
    expect((await fetch(`${admin}/readyz`)).status).toBe(200);
  });

  it("keeps no request for a worker that an operator drains, nor without a loader", async () => {
    const { url, admin } = await start(LONG);
    const before = post(url, false);
    await until(() => loader.waiting === 1);
    await fetch(`${admin}/v1/cgn/nodes/a/cordon`, { method: "POST" });
    expect((await before).status).toBe(503);
    expect((await post(url, false)).status).toBe(503);
    await test?.router.close();
    test = await startTestRouter([worker()]);
    expect((await post(test.url, false)).status).toBe(503);
  });
});
