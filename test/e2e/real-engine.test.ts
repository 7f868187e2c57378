import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { realConfig } from "../../src/cli/demo/config.ts";
import { ensureRealEngine, type RealEngine } from "../../src/cli/demo/real-engine.ts";
import { cacheDir } from "../../src/cli/places.ts";
import { alive, until } from "../helpers/cgn-process.ts";
import { chat, readyWorkers, startUp, type Up } from "../helpers/up.ts";

/** The starter of `npm test` says whether Python and the wheels are there. */
const HERE = process.env["CGN_REAL_ENGINE"] === "1";

const SYSTEM = "You are a helpful assistant in a small library. ".repeat(20);

describe.skipIf(!HERE)("two real llama.cpp servers behind cgn up", () => {
  let up: Up;
  beforeAll(async () => {
    const engine: RealEngine = await ensureRealEngine(cacheDir(process.env), process.env, new AbortController().signal);
    up = await startUp((ports, dir) => realConfig(engine, ports, dir));
  }, 90_000);
  afterAll(async () => void (await up?.stop()));

  const first = [
    { role: "system", content: SYSTEM },
    { role: "user", content: "What is a book?" },
  ];

  it("sends the second turn where the first was, with the prediction confirmed by the engine", async () => {
    const body = {
      model: "smollm2",
      temperature: 0,
      max_tokens: 24,
      stream: true,
      stream_options: { include_usage: true },
    };
    const one = await chat(up.url, { ...body, messages: first });
    expect(one).toMatchObject({ status: 200, finished: true, error: undefined });
    const two = await chat(up.url, {
      ...body,
      messages: [...first, { role: "assistant", content: one.text }, { role: "user", content: "Name one." }],
    });
    expect(two.node).toBe(one.node);
    expect(two.cached).toBeGreaterThan(100);
    expect(Math.abs(two.predicted - (two.cached ?? 0))).toBeLessThanOrEqual(2);
  });

  it("answers without streaming in the engine's own shape", async () => {
    const reply = await chat(up.url, { model: "smollm2", temperature: 0, max_tokens: 8, messages: first });
    expect(reply).toMatchObject({ status: 200, error: undefined });
    expect(reply.text.length).toBeGreaterThan(0);
    expect(reply.cached).toBeGreaterThan(100);
  });

  it("keeps every stream whole or says why when an engine is killed, and serves again after the restart", async () => {
    const busy = Array.from({ length: 6 }, (_, n) =>
      chat(up.url, {
        model: "smollm2",
        max_tokens: 200,
        stream: true,
        messages: [{ role: "user", content: `Count from ${n} to one hundred.` }],
      }),
    );
    await new Promise((resolve) => setTimeout(resolve, 700));
    const victims = up.enginePids(up.enginePorts[0]);
    expect(victims.length).toBeGreaterThan(0);
    for (const pid of victims) process.kill(pid, "SIGKILL");
    for (const reply of await Promise.all(busy)) expect(reply.finished || reply.error !== undefined).toBe(true);
    await until("restarted", 20_000, async () => ((await readyWorkers(up.admin)) === 2 ? true : undefined), up.output);
    const after = await chat(up.url, { model: "smollm2", max_tokens: 4, messages: first });
    expect(after.status).toBe(200);
  }, 60_000);

  it("leaves nothing running after SIGTERM", async () => {
    const pids = up.enginePorts.flatMap((port) => up.enginePids(port));
    expect(pids.length).toBeGreaterThan(1);
    expect([0, 143]).toContain(await up.stop());
    await until("engines gone", 5_000, () => (pids.some(alive) ? undefined : true));
  }, 30_000);
});
