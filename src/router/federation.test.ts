import { afterEach, describe, expect, it } from "vitest";
import type { FederationSettings } from "../config/settings.ts";
import { until } from "../process/testing/harness.ts";
import { createMetrics } from "../telemetry/metrics.ts";
import type { DecisionRecord } from "./decisions.ts";
import { type FakeEngine, startFakeEngine } from "./testing/fake-engine.ts";
import { startTestRouter, type TestRouter, testWorker } from "./testing/test-router.ts";

const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

async function engine(): Promise<FakeEngine> {
  const made = await startFakeEngine();
  ends.push(() => made.close());
  return made;
}

async function cluster(
  workers: Parameters<typeof startTestRouter>[0],
  peers: readonly string[] = [],
  over: Partial<FederationSettings> = {},
): Promise<TestRouter & { metrics: ReturnType<typeof createMetrics> }> {
  const metrics = createMetrics({ processMetrics: false });
  const federation = peers.length === 0 ? {} : { federation: { peers, maxHops: 1, healthIntervalMs: 100, ...over } };
  const made = await startTestRouter(workers, federation, undefined, undefined, { metrics });
  ends.push(() => made.router.close());
  const { federation: seen } = made.router.core;
  if (seen !== undefined) {
    await until("peers are looked at", () => seen.status().every(({ reason }) => reason !== "not asked yet"), 20_000);
  }
  return { ...made, metrics };
}

const ask = (url: string, body: object = {}, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify({ model: "m", messages: [{ role: "user", content: "hi" }], ...body }),
  });

const recordOf = async ({ admin }: TestRouter, id: string): Promise<DecisionRecord> =>
  (await (await fetch(`${admin}/v1/cgn/decisions/${id}`)).json()) as DecisionRecord;

describe("Federation", () => {
  it("hands a request to the other cluster when none here is ready, whole and streamed, and says so", async () => {
    const there = await engine();
    const east = await cluster([testWorker("e", there.url)]);
    const west = await cluster([testWorker("w", "http://127.0.0.1:1", { state: "down", reason: "gone" })], [east.url]);
    const whole = await ask(west.url, {}, { "x-request-id": "r1", authorization: "Bearer mine" });
    expect(whole.status).toBe(200);
    expect(whole.headers.get("x-cgn-cluster")).toBe(new URL(east.url).host);
    expect(JSON.stringify(await whole.json())).toContain("Paris");
    const streamed = await ask(west.url, { stream: true });
    expect(await streamed.text()).toMatch(/Paris[\s\S]*\[DONE\]/);
    expect(there.seen[0]?.headers).toMatchObject({ "x-request-id": "r1", authorization: "Bearer mine" });
    expect(await recordOf(west, "r1")).toMatchObject({
      policy: "federation",
      handedOver: expect.stringMatching(/no engine is ready/),
      attempts: [{ worker: east.url }],
      outcome: { result: "ok", status: 200, promptTokens: 20 },
    });
    const text = await west.metrics.text();
    expect(text).toMatch(/cgn_router_federated_requests_total\{peer="[^"]+",result="ok"\} 2/);
    expect(text).toMatch(/cgn_router_federation_peer_up\{peer="[^"]+"\} 1/);
    const status = (await (await fetch(`${west.admin}/v1/cgn/status`)).json()) as { federation: object[] };
    expect(status.federation).toMatchObject([{ url: east.url, up: true, models: ["m"] }]);
  });

  it("hands over models that only the other cluster has, with our key there and not the client's", async () => {
    const there = await engine();
    const east = await cluster([testWorker("e", there.url, { models: ["far"] })]);
    const own = await engine();
    const west = await cluster([testWorker("w", own.url)], [east.url], { key: "ours" });
    const headers = { authorization: "Bearer mine", "x-api-key": "mine" };
    expect((await ask(west.url, { model: "far" }, headers)).status).toBe(200);
    expect(there.seen[0]?.headers.authorization).toBe("Bearer ours");
    expect(there.seen[0]?.headers["x-api-key"]).toBeUndefined();
    expect((await ask(west.url, { model: "none" })).status).toBe(404);
    expect((await ask(west.url)).status).toBe(200);
    expect([there.seen.length, own.seen.length]).toEqual([1, 1]);
  });

  it("hands over what would be too late here for the client's own deadline", async () => {
    const there = await engine();
    const own = await engine();
    const east = await cluster([testWorker("e", there.url)]);
    const west = await cluster([testWorker("w", own.url)], [east.url]);
    expect((await ask(west.url, {}, { "x-cgn-deadline-ms": "0.01" })).headers.get("x-cgn-cluster")).not.toBeNull();
    expect((await ask(west.url, {}, { "x-cgn-deadline-ms": "60000" })).headers.get("x-cgn-cluster")).toBeNull();
    expect(west.router.core.loads.of(testWorker("w", "").id).inFlight).toBe(0);
    expect([there.seen.length, own.seen.length]).toEqual([1, 1]);
  });

  it("does not let a request go round, nor hand on one that was handed on often enough", async () => {
    const down = testWorker("d", "http://127.0.0.1:1", { state: "down" });
    const east = await cluster([down], [], {});
    const west = await cluster([down], [east.url], { maxHops: 1 });
    const first = await ask(west.url);
    expect([first.status, (await first.text()).includes("no engine is ready")]).toEqual([503, true]);
    for (const hops of ["1", "99", "x", "-1"]) {
      const { status, headers } = await ask(west.url, {}, { "x-cgn-hops": hops });
      expect([status, headers.get("x-cgn-cluster")]).toEqual([503, null]);
    }
  });

  it("asks the next one when the first is gone, and answers with its own refusal when none can", async () => {
    const there = await engine();
    const near = await cluster([testWorker("e", there.url)]);
    const far = await cluster([testWorker("e", there.url)]);
    const west = await cluster([testWorker("w", "http://127.0.0.1:1", { state: "down" })], [near.url, far.url], {
      healthIntervalMs: 60_000,
    });
    await near.router.close();
    const answer = await ask(west.url, {}, { "x-request-id": "r2" });
    expect([answer.status, answer.headers.get("x-cgn-cluster")]).toEqual([200, new URL(far.url).host]);
    expect((await recordOf(west, "r2")).attempts.map(({ failed }) => failed)).toEqual([
      expect.stringMatching(/connect|refused/),
      undefined,
    ]);
    expect(west.router.core.federation?.status().map(({ up }) => up)).toEqual([false, true]);
    await far.router.close();
    const none = await ask(west.url);
    expect([none.status, (await none.text()).includes("no engine is ready")]).toEqual([503, true]);
  });

  it("says in the stream when the other cluster breaks off, and passes the engine's own 4xx on", async () => {
    const there = await engine();
    const east = await cluster([testWorker("e", there.url)]);
    const west = await cluster([testWorker("w", "http://127.0.0.1:1", { state: "down" })], [east.url]);
    there.behaviour = "reset-midway";
    expect(await (await ask(west.url, { stream: true })).text()).toMatch(/"error"/);
    there.behaviour = { status: 422, body: { error: { message: "no" } } };
    expect((await ask(west.url)).status).toBe(422);
  });
});
