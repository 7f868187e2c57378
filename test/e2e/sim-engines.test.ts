import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { simConfig } from "../../src/cli/demo/config.ts";
import { alive, until } from "../helpers/cgn-process.ts";
import { type ChatReply, chat, readyWorkers, startUp, type Up } from "../helpers/up.ts";

const SYSTEM = "The archive keeps glass plates, night logs and letters, sorted by number and by year. ".repeat(8);
const ask = (question: string, system = SYSTEM) => [
  { role: "system", content: system },
  { role: "user", content: question },
];

describe("two simulated vLLM engines with KV events behind cgn up", () => {
  let up: Up;
  beforeAll(async () => {
    up = await startUp(simConfig);
  }, 60_000);
  afterAll(async () => void (await up?.stop()));

  const body = { model: "sim", max_tokens: 16, stream: true, stream_options: { include_usage: true } };

  it("predicts the second turn's cached tokens exactly, from events", async () => {
    const one = await chat(up.url, { ...body, messages: ask("Where are the comets?") });
    expect(one).toMatchObject({ status: 200, finished: true, cached: 0 });
    await new Promise((resolve) => setTimeout(resolve, 200));
    const turn2 = [
      ...ask("Where are the comets?"),
      { role: "assistant", content: one.text },
      { role: "user", content: "And the letters?" },
    ];
    const two = await chat(up.url, { ...body, messages: turn2 });
    expect(two.node).toBe(one.node);
    expect(two.cached).toBeGreaterThan(0);
    expect(two.predicted).toBe(two.cached);
  });

  it("spreads unrelated prompts over both engines", async () => {
    const replies = await Promise.all(
      Array.from({ length: 12 }, (_, n) =>
        chat(up.url, { ...body, messages: ask("Hello?", `Another system prompt, number ${n}. `.repeat(20)) }),
      ),
    );
    expect(new Set(replies.map((r) => r.node)).size).toBe(2);
  });

  it("gives each of 20 streams a whole answer or an error within 2 s of kill -9, then serves again and forgets the dead cache", async () => {
    const warm = await chat(up.url, { ...body, messages: ask("Who writes the logs?") });
    let killedAt = Number.POSITIVE_INFINITY;
    const busy = Array.from({ length: 20 }, async (_, n): Promise<ChatReply & { endedMs: number }> => {
      const reply = await chat(up.url, {
        ...body,
        max_tokens: 200,
        messages: ask(`Question ${n}`, `System ${n}. `.repeat(30)),
      });
      return { ...reply, endedMs: performance.now() - killedAt };
    });
    await new Promise((resolve) => setTimeout(resolve, 500));
    const victims = up.enginePids(up.enginePorts[0]);
    killedAt = performance.now();
    for (const pid of victims) process.kill(pid, "SIGKILL");
    const replies = await Promise.all(busy);
    for (const reply of replies) {
      expect(reply.finished || reply.error !== undefined, JSON.stringify(reply)).toBe(true);
      if (reply.error !== undefined) expect(reply.endedMs).toBeLessThan(4_000);
    }
    await until("restarted", 20_000, async () => ((await readyWorkers(up.admin)) === 2 ? true : undefined), up.output);
    const after = await Promise.all(
      [0, 1, 2, 3].map((n) => chat(up.url, { ...body, messages: ask(`After ${n}`, `Fresh ${n}. `.repeat(30)) })),
    );
    for (const reply of after) expect(reply).toMatchObject({ status: 200, finished: true });
    // Whatever engine it goes to now, nothing may be predicted that died with the process.
    const again = await chat(up.url, { ...body, messages: ask("Who writes the logs?") });
    expect(again.predicted, `was on ${warm.node}, now on ${again.node}`).toBe(again.cached);
  }, 60_000);

  it("leaves no engine 5 s after kill -9 on the agent", async () => {
    const pids = up.enginePorts.flatMap((port) => up.enginePids(port));
    expect(pids.length).toBeGreaterThan(1);
    up.child.kill("SIGKILL");
    await until("engines gone", 5_000, () => (pids.some(alive) ? undefined : true));
  }, 20_000);
});
