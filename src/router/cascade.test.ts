import { afterEach, describe, expect, it } from "vitest";
import type { CascadeChain } from "../config/settings.ts";
import type { WorkerInfo } from "../core/worker.ts";
import { type LogprobEngine, type LogprobScript, startLogprobEngine } from "./testing/logprob-engine.ts";
import { startTestRouter, type TestRouter, testWorker } from "./testing/test-router.ts";

const CHAIN: CascadeChain = { name: "auto", models: ["small", "large"], thresholds: [-1], tokens: 4, unjudged: "next" };

const SURE = [-0.1, -0.2, -0.1, -0.1, -3, -3];
const UNSURE = [-5, -5, -5, -5, -5, -5, -5, -5];

const open: { close(): Promise<void> }[] = [];

afterEach(async () => {
  for (const one of open.splice(0).reverse()) await one.close();
});

interface Stage {
  readonly small: LogprobEngine;
  readonly large: LogprobEngine;
  readonly test: TestRouter;
}

async function stage(
  small: Partial<LogprobScript>,
  chain: Partial<CascadeChain> = {},
  over: { readonly small?: Partial<WorkerInfo>; readonly large?: Partial<LogprobScript> } = {},
): Promise<Stage> {
  const engines = [
    await startLogprobEngine({ logprobs: SURE, text: "s", ...small }),
    await startLogprobEngine({ logprobs: [-0.1, -0.1], text: "L", ...over.large }),
  ] as const;
  const whole = { ...CHAIN, ...chain };
  const test = await startTestRouter(
    [
      testWorker("w-small", engines[0].url, {
        models: ["small"],
        traits: { usageOnlyWhenAsked: true, servesWhole: true },
        ...over.small,
      }),
      testWorker("w-large", engines[1].url, { models: ["large"], traits: { usageOnlyWhenAsked: true } }),
    ],
    { cascades: { [whole.name]: whole } },
  );
  open.push(...engines, { close: () => test.router.close() });
  return { small: engines[0], large: engines[1], test };
}

const chat = { messages: [{ role: "user", content: "hi" }] };

async function ask(test: TestRouter, body: object, path = "/v1/chat/completions", id = "r"): Promise<Response> {
  return fetch(test.url + path, {
    method: "POST",
    headers: { "content-type": "application/json", "x-request-id": id },
    body: JSON.stringify({ model: "auto", ...body }),
  });
}

interface Answer {
  readonly model: string;
  readonly choices: readonly { readonly message: { readonly content: string }; readonly logprobs: unknown }[];
}

/** Text of a stream, and its parsed events. */
async function events(reply: Response): Promise<{ text: string; chunks: Record<string, unknown>[]; done: boolean }> {
  const raw = await reply.text();
  const datas = raw
    .split("\n\n")
    .filter((event) => event.startsWith("data: "))
    .map((event) => event.slice(6));
  const chunks = datas.filter((data) => data !== "[DONE]").map((data) => JSON.parse(data) as Record<string, unknown>);
  const text = chunks
    .flatMap((chunk) => (chunk["choices"] ?? []) as { delta?: { content?: string }; text?: string }[])
    .map(({ delta, text: own }) => delta?.content ?? own ?? "")
    .join("");
  return { text, chunks, done: datas.at(-1) === "[DONE]" };
}

/** Nothing is left over of a request. */
function expectIdle({ router }: TestRouter): void {
  for (const id of ["w-small", "w-large"])
    expect(router.core.loads.of(router.core.fleet.workers().find((w) => w.id === id)!.id).inFlight).toBe(0);
  expect([router.core.admissions.running("small"), router.core.admissions.running("large")]).toEqual([0, 0]);
}

describe("a cascade, with whole answers", () => {
  it("is another one after retune(), and none where the file has none any more", async () => {
    const { small, large, test } = await stage({ logprobs: UNSURE });
    const model = async () => ((await (await ask(test, chat)).json()) as Answer).model;
    expect(await model()).toBe("large");
    const tuned = { policy: "ttft", scoreWeights: { kv: 1, load: 0, power: 0, capacity: 0 }, admission: {} };
    test.router.retune({ ...tuned, cascades: { auto: { ...CHAIN, thresholds: [-20] } } });
    expect(await model()).toBe("small");
    // Shared settings have none: they stay.
    test.router.retune(tuned);
    expect(await model()).toBe("small");
    test.router.retune({ ...tuned, cascades: {} });
    expect((await ask(test, chat)).status).toBe(404);
    expect([small.seen.length, large.seen.length]).toEqual([3, 1]);
  });

  it("serve() gives the client the small model's answer when it is sure, without log probabilities", async () => {
    const { small, large, test } = await stage({});
    const reply = await ask(test, chat);
    const answer = (await reply.json()) as Answer;
    expect(reply.headers.get("x-cgn-cascade-step")).toBe("1");
    expect(answer.model).toBe("small");
    expect(answer.choices[0]).toMatchObject({ message: { content: "ssssss" } });
    expect(answer.choices[0]!.logprobs ?? null).toBeNull();
    expect(small.seen[0]).toMatchObject({ model: "small", logprobs: true });
    expect(large.seen).toEqual([]);
    expectIdle(test);
  });

  it("serve() asks the next model when the small one is not sure, and cuts the small one's answer early", async () => {
    const { small, large, test } = await stage({ logprobs: UNSURE, hangAfter: 4 });
    const reply = await ask(test, chat);
    const answer = (await reply.json()) as Answer;
    expect(reply.headers.get("x-cgn-cascade-step")).toBe("2");
    expect(answer).toMatchObject({ model: "large", choices: [{ message: { content: "LL" } }] });
    expect(large.seen[0]).toEqual({ model: "large", ...chat });
    expect(small.cut).toBe(1);
    expectIdle(test);
  });

  it("serve() leaves the log probabilities in that the client asked for, with as many others", async () => {
    const { small, test } = await stage({});
    const answer = (await (await ask(test, { ...chat, logprobs: true, top_logprobs: 3 })).json()) as Answer;
    const logprobs = answer.choices[0]!.logprobs as { content: { top_logprobs: unknown[] }[] };
    expect(logprobs.content.map(({ top_logprobs }) => top_logprobs.length)).toEqual([3, 3, 3, 3, 3, 3]);
    expect(small.seen[0]).toMatchObject({ logprobs: true, top_logprobs: 3 });
  });

  it("serve() does the same for text completions", async () => {
    const { small, test } = await stage({});
    const kept = await ask(test, { prompt: "hi" }, "/v1/completions");
    expect(await kept.json()).toMatchObject({ model: "small", choices: [{ text: "ssssss" }] });
    expect(small.seen[0]).toMatchObject({ logprobs: 0, prompt: "hi" });
    small.script.logprobs = UNSURE;
    const next = await ask(test, { prompt: "hi" }, "/v1/completions");
    expect(await next.json()).toMatchObject({ model: "large", choices: [{ text: "LL" }] });
  });

  it("serve() judges all of several choices", async () => {
    const { small, test } = await stage({});
    const answer = (await (await ask(test, { ...chat, n: 2 })).json()) as Answer;
    expect(answer.choices.map(({ message }) => message.content)).toEqual(["ssssss", "ssssss"]);
    small.script.logprobs = UNSURE;
    expect(await (await ask(test, { ...chat, n: 2 })).json()).toMatchObject({ model: "large" });
  });

  it.each([
    ["answers 500", { status: 500 }],
    ["refuses", { status: 400 }],
    ["is overloaded", { status: 429 }],
    ["cannot be reached", { status: 503 }],
  ])("serve() asks the next model when the small one %s", async (_what, script) => {
    const { test } = await stage(script);
    const reply = await ask(test, chat);
    expect([reply.status, reply.headers.get("x-cgn-cascade-step")]).toEqual([200, "2"]);
    expect(await reply.json()).toMatchObject({ model: "large" });
    expectIdle(test);
  });

  it("serve() asks the next model when no engine of the small one is ready", async () => {
    const { test } = await stage({}, {}, { small: { state: "down", reason: "ended" } });
    const reply = await ask(test, chat);
    expect([reply.status, reply.headers.get("x-cgn-cascade-step")]).toEqual([200, "2"]);
  });

  it("serve() gives the last model's refusal to the client", async () => {
    const { test } = await stage({ status: 400 }, {}, { large: { status: 422 } });
    const reply = await ask(test, chat);
    expect([reply.status, reply.headers.get("x-cgn-cascade-step")]).toEqual([422, "2"]);
    expectIdle(test);
  });

  it("serve() does with an answer that cannot be judged what the chain says", async () => {
    const next = await stage({ silent: true });
    expect(await (await ask(next.test, chat)).json()).toMatchObject({ model: "large" });
    const keep = await stage({ silent: true }, { unjudged: "keep" });
    expect(await (await ask(keep.test, chat)).json()).toMatchObject({ model: "small" });
  });

  it("serve() does not ask a model in vain that tells no log probabilities", async () => {
    const next = await stage({}, {}, { small: { traits: { lacksLogprobs: true } } });
    expect(await (await ask(next.test, chat)).json()).toMatchObject({ model: "large" });
    expect(next.small.seen).toEqual([]);
    const echo = await ask(next.test, { prompt: "x", echo: true }, "/v1/completions");
    expect(echo.headers.get("x-cgn-cascade-step")).toBe("2");
    const keep = await stage({}, { unjudged: "keep" }, { small: { traits: { lacksLogprobs: true } } });
    expect(await (await ask(keep.test, chat)).json()).toMatchObject({ model: "small" });
    expect(keep.small.seen[0]).not.toHaveProperty("logprobs");
  });

  it("serve() has the model of the chain's own name first, where it is served", async () => {
    const { test } = await stage({}, { name: "small", models: ["large"] });
    const reply = await ask(test, { ...chat, model: "small" });
    expect([reply.headers.get("x-cgn-cascade-step"), (await reply.json()) as object]).toMatchObject([
      "1",
      { model: "small" },
    ]);
    expect(await (await ask(test, { ...chat, model: "large" })).json()).toMatchObject({ model: "large" });
  });
});

describe("a cascade, with streams", () => {
  it("serve() holds a stream back for the tokens that are judged, and streams on", async () => {
    // The engine stops after the four tokens that are judged: what is read until then was let go by the verdict.
    const { small, test } = await stage({ hangAfter: 4 });
    const reply = await ask(test, { ...chat, stream: true });
    expect(reply.headers.get("x-cgn-cascade-step")).toBe("1");
    const reader = reply.body!.getReader();
    let text = "";
    while (!text.includes("sss") && (text.match(/"content":"s"/g) ?? []).length < 4)
      text += new TextDecoder().decode((await reader.read()).value);
    expect(text).not.toContain("token");
    await reader.cancel();
    await until(() => small.cut === 1);
    await until(() => test.router.core.admissions.running("small") === 0);
    expectIdle(test);
  });

  it("serve() streams the next model's answer alone when the small one is not sure", async () => {
    const { small, test } = await stage({ logprobs: UNSURE, hangAfter: 6 });
    const reply = await ask(test, { ...chat, stream: true });
    const { text, chunks, done } = await events(reply);
    expect([reply.headers.get("x-cgn-cascade-step"), text, done]).toEqual(["2", "LL", true]);
    expect(chunks.every((chunk) => chunk["model"] === "large")).toBe(true);
    expect(small.cut).toBe(1);
    expectIdle(test);
  });

  it("serve() strips log probabilities through the whole stream, and its own usage", async () => {
    const { test } = await stage({});
    const { text, chunks, done } = await events(await ask(test, { ...chat, stream: true }));
    expect([text, done]).toEqual(["ssssss", true]);
    const choices = chunks.flatMap((chunk) => chunk["choices"] as { logprobs: unknown }[]);
    expect(choices.map(({ logprobs }) => logprobs)).toEqual(choices.map(() => null));
    expect(chunks.some((chunk) => "usage" in chunk)).toBe(false);
  });

  it("serve() lets a short answer go at its end", async () => {
    const { test } = await stage({ logprobs: [-0.1] });
    const { text, done } = await events(await ask(test, { ...chat, stream: true }));
    expect([text, done]).toEqual(["s", true]);
  });

  it("serve() asks the next model when the small one's engine dies before the verdict", async () => {
    const { test } = await stage({ cutAfter: 2 });
    const { text, done } = await events(await ask(test, { ...chat, stream: true }));
    expect([text, done]).toEqual(["LL", true]);
    expectIdle(test);
  });

  it("serve() ends a stream with an error when the engine dies after the verdict", async () => {
    const { test } = await stage({ cutAfter: 5 });
    const { text, chunks } = await events(await ask(test, { ...chat, stream: true }));
    expect(text).toBe("sssss");
    expect(chunks.at(-1)).toHaveProperty("error");
    expectIdle(test);
  });

  it("serve() knows early that a stream has no log probabilities", async () => {
    const { small, test } = await stage({ silent: true, logprobs: Array<number>(9).fill(-1), hangAfter: 8 });
    const { text } = await events(await ask(test, { ...chat, stream: true }));
    expect([text, small.cut]).toEqual(["LL", 1]);
  });

  it("serve() cancels the step under way when the client leaves", async () => {
    const { small, large, test } = await stage({ hangAfter: 2 });
    const control = new AbortController();
    const reply = fetch(`${test.url}/v1/chat/completions`, {
      method: "POST",
      signal: control.signal,
      body: JSON.stringify({ model: "auto", ...chat, stream: true }),
    });
    await until(() => small.seen.length === 1);
    control.abort();
    await expect(reply).rejects.toThrow();
    await until(() => small.cut === 1);
    await until(() => test.router.core.admissions.running("small") === 0);
    expect(large.seen).toEqual([]);
    expectIdle(test);
  });
});

describe("what a cascade tells", () => {
  it("serve() writes down each step, and what all of them used", async () => {
    const { test } = await stage({ logprobs: [-5, -5, -5, -5] });
    await ask(test, chat, undefined, "told").then((reply) => reply.text());
    const record = (await (await fetch(`${test.admin}/v1/cgn/decisions/told`)).json()) as {
      model: string;
      outcome: object;
      cascade: { earlier: { decision: { outcome: object } }[] };
    };
    expect(record).toMatchObject({ model: "large", outcome: { result: "ok" } });
    expect(record.cascade).toMatchObject({ chain: "auto", model: "large", step: 2, steps: 2, result: "last" });
    expect(record.cascade.earlier[0]).toMatchObject({
      model: "small",
      step: 1,
      threshold: -1,
      mean: -5,
      result: "escalated",
      decision: { outcome: { result: "escalated", completionTokens: expect.any(Number) } },
    });
    const text = await (await fetch(`${test.admin}/metrics`)).text();
    expect(text).toContain('cgn_router_cascade_steps_total{chain="auto",model="small",result="escalated"} 1');
    expect(text).toContain('cgn_router_cascade_steps_total{chain="auto",model="large",result="last"} 1');
    expect(text).toMatch(/cgn_router_cascade_doubt_sum\{chain="auto",model="small"\} 5/);
    // One request of the client, whatever it took.
    expect(text).toContain('cgn_router_requests_total{model="large",subject="anonymous",outcome="ok"} 1');
    expect(text).not.toContain('cgn_router_requests_total{model="small"');
    const usage = test.router.core.metrics.subjects.usage();
    expect(usage).toMatchObject([{ requests: 1, failed: 0 }]);
    expect(usage[0]!.completionTokens).toBeGreaterThanOrEqual(2 + 1);
  });

  it("GET /v1/models names a chain whose name no engine serves", async () => {
    const { test } = await stage({});
    const all = (await (await fetch(`${test.url}/v1/models`)).json()) as { data: { id: string }[] };
    expect(all.data.map(({ id }) => id)).toEqual(["small", "large", "auto"]);
    expect((await fetch(`${test.url}/v1/models/auto`)).status).toBe(200);
  });
});

/** Wait for what another connection does. */
async function until(holds: () => boolean): Promise<void> {
  for (let k = 0; k < 2_000 && !holds(); k++) await new Promise((resolve) => setTimeout(resolve, 5));
  expect(holds()).toBe(true);
}
