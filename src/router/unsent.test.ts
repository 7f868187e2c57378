import { afterEach, describe, expect, it } from "vitest";
import { workerId } from "../core/ids.ts";
import { startFakeEngine } from "./testing/fake-engine.ts";
import { startTestRouter, testWorker } from "./testing/test-router.ts";

const closers: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function rig() {
  const a = await startFakeEngine();
  const b = await startFakeEngine();
  const test = await startTestRouter([testWorker("a", a.url), testWorker("b", b.url)], { policy: "round_robin" });
  closers.push(a.close, b.close, () => test.router.close());
  const ask = (body: object) =>
    fetch(`${test.url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: "m", messages: [{ role: "user", content: "Hello" }], ...body }),
    });
  return { ...test, a, b, ask };
}

describe("what the index is told of tries", () => {
  // A try that failed stayed in the index as if the engine had it: the next turn was predicted wrong.
  it("serve() takes each failed try back, and none that was answered", async () => {
    const { a, ask, knowledge } = await rig();
    a.behaviour = "reset-midway";
    expect((await ask({})).status).toBe(200);
    expect(knowledge.sentTo).toEqual(["a", "b"]);
    expect(knowledge.unsentTo).toEqual(["a"]);
    expect(knowledge.outcomes.map(({ worker }) => worker)).toEqual(["b"]);
  });

  it("serve() takes back what the engine refused, and what failed on all engines", async () => {
    const { a, b, ask, knowledge } = await rig();
    a.behaviour = b.behaviour = { status: 400, body: { error: { message: "too long" } } };
    expect((await ask({})).status).toBe(400);
    expect(knowledge.unsentTo).toEqual(knowledge.sentTo);
    a.behaviour = b.behaviour = { status: 503, body: { error: { message: "busy" } } };
    expect((await ask({})).status).toBe(503);
    expect(knowledge.unsentTo).toEqual(knowledge.sentTo);
    expect(knowledge.outcomes).toEqual([]);
  });

  // 37 tokens were predicted of a prompt of 33.
  it("serve() never predicts all of a prompt whose tokens are known", async () => {
    const { url, knowledge } = await rig();
    const at = { worker: workerId("a"), blocks: 0, bytes: 9, tier: "device", source: "history" } as const;
    knowledge.matches = [
      { ...at, tokens: 37 },
      { ...at, worker: workerId("b"), tokens: 37 },
    ];
    const res = await fetch(`${url}/v1/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: "m", prompt: [1, 2, 3] }),
    });
    expect(res.headers.get("x-cgn-predicted-cached-tokens")).toBe("2");
  });
});
