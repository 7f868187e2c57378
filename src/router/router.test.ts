import { request as httpRequest, type IncomingMessage } from "node:http";
import { connect } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { workerId } from "../core/ids.ts";
import type { WorkerInfo } from "../core/worker.ts";
import type { RouterOptions } from "./create-router.ts";
import { type FakeEngine, startFakeEngine } from "./testing/fake-engine.ts";
import { startTestRouter, type TestRouter, testWorker } from "./testing/test-router.ts";

const closers: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

interface Rig extends TestRouter {
  readonly a: FakeEngine;
  readonly b: FakeEngine;
}

/** A router before engines `a` and `b`. Round robin, so that `a` is asked first. */
async function rig(over: Partial<WorkerInfo> = {}, settings: Partial<RouterOptions["settings"]> = {}): Promise<Rig> {
  const a = await startFakeEngine();
  const b = await startFakeEngine();
  const workers = [testWorker("a", a.url, over), testWorker("b", b.url, over)];
  const test = await startTestRouter(workers, { policy: "round_robin", ...settings });
  closers.push(a.close, b.close, () => test.router.close());
  return { ...test, a, b };
}

const CHAT = { model: "m", messages: [{ role: "user", content: "What is the capital of France?" }] };

function chat(url: string, body: unknown = CHAT, init: RequestInit = {}): Promise<Response> {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    body: text,
    ...init,
    headers: { "content-type": "application/json", ...init.headers },
  });
}

const stream = { ...CHAT, stream: true };

async function until(condition: () => boolean): Promise<void> {
  for (let i = 0; i < 200 && !condition(); i++) await new Promise((resolve) => setTimeout(resolve, 10));
  expect(condition()).toBe(true);
}

function inFlight({ router }: TestRouter): number[] {
  return ["a", "b"].map((id) => router.core.loads.of(workerId(id)).inFlight);
}

describe("a request that goes well", () => {
  it("gets the engine's answer, with who answered and what was predicted", async () => {
    const { url, a, knowledge } = await rig();
    knowledge.matches = [{ worker: workerId("a"), tokens: 16, blocks: 1, bytes: 30, tier: "device", source: "events" }];
    const res = await chat(url, CHAT, { headers: { "x-request-id": "mine-1" } });
    expect(res.status).toBe(200);
    expect((await res.json()).choices[0].message.content).toBe("The capital of France is Paris.");
    expect(Object.fromEntries(res.headers)).toMatchObject({
      "x-request-id": "mine-1",
      "x-cgn-node": "a",
      "x-cgn-cache-hit": "true",
      "x-cgn-predicted-cached-tokens": "16",
      "x-engine": "fake",
    });
    expect(a.seen[0]?.headers["x-request-id"]).toBe("mine-1");
    expect(knowledge.sentTo).toEqual(["a"]);
    expect(knowledge.outcomes[0]).toMatchObject({ predictedTokens: 16, cachedTokens: 16, promptTokens: 20 });
  });

  it("reaches the engine byte for byte, with its credentials", async () => {
    const { url, a } = await rig();
    const body = '{ "model":"m",  "messages":[{"role":"user","content":"\\u00e9 é"}], "seed": 12345678901234567890 }';
    await chat(url, body, { headers: { authorization: "Bearer k", "x-cgn-session": "s" } });
    expect(a.seen[0]?.body).toBe(body);
    expect(a.seen[0]?.headers.authorization).toBe("Bearer k");
    expect(a.seen[0]?.headers["x-cgn-session"]).toBeUndefined();
  });

  it("streams as the engine does", async () => {
    const { url } = await rig();
    const res = await chat(url, stream);
    expect(res.headers.get("content-type")).toBe("text/event-stream");
    const text = await res.text();
    expect(text.match(/^data: /gm)).toHaveLength(9);
    expect(text.endsWith("data: [DONE]\n\n")).toBe(true);
  });

  it("passes other paths below /v1/ by their model, and asks the only model where none is named", async () => {
    const { url, a, b } = await rig();
    await fetch(`${url}/v1/rerank?x=1`, { method: "POST", body: '{"model":"m","query":"q"}' });
    await fetch(`${url}/v1/anything`);
    expect([a.seen[0]?.url, b.seen[0]?.url]).toEqual(["/v1/rerank?x=1", "/v1/anything"]);
  });

  it("lists models", async () => {
    const { url } = await rig();
    const list = await (await fetch(`${url}/v1/models`)).json();
    expect(list.data.map((m: { id: string }) => m.id)).toEqual(["m"]);
    expect((await (await fetch(`${url}/v1/models/m`)).json()).id).toBe("m");
    expect((await fetch(`${url}/v1/models/none`)).status).toBe(404);
  });
});

describe("traits", () => {
  it("upstreamModel and stripKvTransferParams change these members only", async () => {
    const { url, a } = await rig({ upstreamModel: "/models/x", traits: { stripKvTransferParams: true } });
    await chat(url, '{"model": "m", "kv_transfer_params": {"do_remote_prefill": true}, "messages": [{"content":"a"}]}');
    expect(a.seen[0]?.body).toBe('{"model": "/models/x", "messages": [{"content":"a"}]}');
  });

  it("usageOnlyWhenAsked asks for usage and hides the chunk that the client did not ask for", async () => {
    const { url, a, knowledge } = await rig({ traits: { usageOnlyWhenAsked: true } });
    const text = await (await chat(url, { ...stream, stream_options: { other: 1 } })).text();
    expect(JSON.parse(a.seen[0]?.body ?? "").stream_options).toEqual({ other: 1, include_usage: true });
    expect(text).not.toContain("usage");
    expect(text.endsWith("data: [DONE]\n\n")).toBe(true);
    expect(knowledge.outcomes[0]).toMatchObject({ promptTokens: 20, cachedTokens: 16 });
    const asked = await (await chat(url, { ...stream, stream_options: { include_usage: true } })).text();
    expect(asked).toContain("usage");
  });

  it("foldNonStreaming gives a whole answer of a stream, and tells the index what was generated", async () => {
    const { url, a, knowledge } = await rig({
      traits: { foldNonStreaming: true },
      kv: { type: "history", entries: 4 },
    });
    const res = await chat(url);
    expect(JSON.parse(a.seen[0]?.body ?? "")).toMatchObject({ stream: true, stream_options: { include_usage: true } });
    expect(res.headers.get("content-type")).toContain("application/json");
    expect(await res.json()).toMatchObject({
      object: "chat.completion",
      choices: [{ message: { content: "The capital of France is Paris." }, finish_reason: "stop" }],
      usage: { prompt_tokens: 20 },
    });
    expect(Buffer.from(knowledge.outcomes[0]?.answer ?? []).toString()).toBe("The capital of France is Paris.");
  });

  it("foldNonStreaming aborts the engine when a non-streaming client leaves", async () => {
    const test = await rig({ traits: { foldNonStreaming: true } });
    test.a.behaviour = "endless";
    const leave = new AbortController();
    const pending = chat(test.url, CHAT, { signal: leave.signal }).catch(() => "left");
    await until(() => test.a.seen.length === 1);
    leave.abort();
    expect(await pending).toBe("left");
    await until(() => test.a.seen[0]?.aborted === true);
    expect(inFlight(test)).toEqual([0, 0]);
  });
});

describe("bad requests", () => {
  it.each([
    ["not JSON", "{", 400, "request_invalid", null],
    ["no object", "[]", 400, "request_invalid", null],
    ["no model", '{"messages":[]}', 400, "request_invalid", "model"],
    ["a model that is no name", '{"model":1}', 400, "request_invalid", "model"],
    ["an unknown model", '{"model":"gpt-9"}', 404, "model_not_found", "model"],
    ["a body over the limit", JSON.stringify({ model: "m", x: "y".repeat(70_000) }), 413, "request_too_large", null],
  ])("%s is answered in OpenAI's shape", async (_what, body, status, code, param) => {
    const { url, a, b } = await rig();
    const res = await chat(url, body);
    expect(res.status).toBe(status);
    const answer = await res.json();
    expect(answer.src).toBe("cgn");
    expect(answer.error).toMatchObject({ code, param, type: "invalid_request_error" });
    expect(a.seen.length + b.seen.length).toBe(0);
  });

  it("an unknown model's error names those there are", async () => {
    const { url } = await rig();
    const res = await chat(url, { model: "gpt-9" });
    expect((await res.json()).error.message).toContain('There is "m"');
  });

  it("a chunked body over the limit is refused too", async () => {
    const { url } = await rig();
    const status = await new Promise((resolve, reject) => {
      const req = httpRequest(`${url}/v1/chat/completions`, { method: "POST" }, (res) => resolve(res.statusCode));
      req.on("error", reject);
      for (let i = 0; i < 20; i++) req.write("x".repeat(8192));
      req.end();
    });
    expect(status).toBe(413);
  });

  it("a wrong path or method says so", async () => {
    const { url } = await rig();
    expect((await fetch(`${url}/nope`)).status).toBe(404);
    const res = await fetch(`${url}/v1/chat/completions`);
    expect([res.status, res.headers.get("allow")]).toEqual([405, "POST"]);
  });

  it("bytes that are no HTTP are answered with 400", async () => {
    const { router } = await rig();
    const text = await new Promise<string>((resolve) => {
      const socket = connect(router.address.port, "127.0.0.1", () => socket.write("nonsense\r\n\r\n"));
      socket.on("data", (data) => resolve(data.toString()));
    });
    expect(text).toMatch(/^HTTP\/1\.1 400 [\s\S]*"src":"cgn"/);
  });
});

describe("engines that fail before the first byte", () => {
  it.each([
    ["reset", "reset"],
    ["503", { status: 503, body: { error: "Loading model" } }],
    [
      "vLLM's 500 while it drains",
      { status: 500, body: { error: { message: "cannot schedule new futures after shutdown" } } },
    ],
  ] as const)("%s: the next worker answers", async (_what, behaviour) => {
    const test = await rig();
    test.a.behaviour = behaviour;
    for (const body of [CHAT, stream]) {
      const res = await chat(test.url, body);
      expect([res.status, res.headers.get("x-cgn-node")]).toEqual([200, "b"]);
      await res.text();
    }
    expect(inFlight(test)).toEqual([0, 0]);
  });

  // llama.cpp closes connections without saying so: the warm engine was skipped for a cold one.
  it("an idle connection that is cut: the same worker is asked on a new one", async () => {
    const test = await rig();
    test.a.behaviour = test.b.behaviour = "one-a-connection";
    for (let n = 0; n < 6; n++) {
      const res = await chat(test.url, CHAT);
      expect(res.status).toBe(200);
      await res.text();
    }
    const tries = test.router.core.decisions.latest(6).map(({ attempts }) => attempts.map((a) => a.worker));
    expect(tries.some((workers) => workers.length === 2)).toBe(true);
    for (const workers of tries) expect(new Set(workers).size).toBe(1);
    expect(inFlight(test)).toEqual([0, 0]);
  });

  it("refused: the next worker answers", async () => {
    const test = await rig();
    await test.a.close();
    const res = await chat(test.url, stream);
    expect([res.status, res.headers.get("x-cgn-node")]).toEqual([200, "b"]);
  });

  it("a whole answer that breaks amid is asked of the next worker", async () => {
    const test = await rig();
    test.a.behaviour = "reset-midway";
    const res = await chat(test.url);
    expect([res.status, res.headers.get("x-cgn-node")]).toEqual([200, "b"]);
    expect((await res.json()).choices).toHaveLength(1);
  });

  it("all fail: 502 that says how, or the engine's own last word", async () => {
    const test = await rig();
    test.a.behaviour = test.b.behaviour = "reset";
    const res = await chat(test.url);
    expect(res.status).toBe(502);
    expect((await res.json()).error.code).toBe("upstream_failed");
    test.a.behaviour = test.b.behaviour = { status: 503, body: { error: { message: "busy" } } };
    const own = await chat(test.url);
    expect([own.status, await own.text()]).toEqual([503, '{"error":{"message":"busy"}}']);
    expect(inFlight(test)).toEqual([0, 0]);
  });

  it("an engine's own 4xx and plain 500 pass unchanged and are not retried", async () => {
    const test = await rig();
    for (const status of [400, 422, 429, 500]) {
      const body = { error: { message: "mine", code: status } };
      test.a.behaviour = test.b.behaviour = { status, body };
      const before = test.a.seen.length + test.b.seen.length;
      const res = await chat(test.url);
      expect([res.status, await res.json()]).toEqual([status, body]);
      expect(test.a.seen.length + test.b.seen.length).toBe(before + 1);
    }
  });

  it("engines that hang are given up after answer_timeout, the second one too, with 504", async () => {
    const answers = { firstTokenMs: 300, answerMs: 300, stallMs: 300, continueStreams: false };
    const test = await rig({}, { answers });
    test.a.behaviour = "hang";
    expect((await chat(test.url)).headers.get("x-cgn-node")).toBe("b");
    test.b.behaviour = "hang";
    const res = await chat(test.url);
    expect(res.status).toBe(504);
    const { error } = await res.json();
    expect([error.code, error.message]).toEqual(["request_timeout", expect.stringContaining("answer_timeout")]);
    await until(() => test.a.seen[0]?.aborted === true);
  });

  it("no ready worker: 503 with each one's reason and Retry-After", async () => {
    const test = await rig();
    test.directory.set(testWorker("a", test.a.url, { state: "down", reason: "exited with code 1" }));
    test.directory.set(testWorker("b", test.b.url, { state: "starting", reason: "loading" }));
    const res = await chat(test.url);
    expect([res.status, res.headers.get("retry-after")]).toEqual([503, "5"]);
    const { error } = await res.json();
    expect(error.code).toBe("no_worker");
    expect(error.message).toContain("a down: exited with code 1; b starting: loading");
  });
});

describe("an engine that keeps failing", () => {
  it("gets no more requests while another takes them, says why, and comes back after a look and one answer", async () => {
    const test = await rig();
    test.a.behaviour = { status: 503, body: { error: "broken" } };
    const ask = async () => {
      const res = await chat(test.url);
      await res.text();
      return [res.status, res.headers.get("x-cgn-node")];
    };
    const worker = async () => {
      const { workers } = await (await fetch(`${test.admin}/v1/cgn/status`)).json();
      return workers[0];
    };
    for (let i = 0; i < 12; i++) expect(await ask()).toEqual([200, "b"]);
    const seen = test.a.seen.length;
    expect(seen).toBe(5);
    expect(await worker()).toMatchObject({ breaker: "open", takesRequests: false });
    expect((await worker()).whyNot).toContain("circuit open: protocol: it answered 503");
    const { attempts } = test.router.core.decisions.latest(1)[0]!;
    expect(attempts[0]?.heldBack?.["a"]).toContain("circuit open");
    // All are held back: nobody is refused for that.
    test.b.behaviour = { status: 503, body: { error: "broken too" } };
    for (let i = 0; i < 6; i++) await ask();
    test.a.behaviour = test.b.behaviour = "answer";
    expect((await ask())[0]).toBe(200);
    await expect
      .poll(
        async () => {
          await ask();
          return (await worker()).breaker;
        },
        { timeout: 10_000 },
      )
      .toBe("closed");
    const metrics = await (await fetch(`${test.admin}/metrics`)).text();
    expect(metrics).toContain('cgn_router_breaker_state{worker="a"} 0');
    expect(metrics).toMatch(/cgn_router_breaker_opened_total{worker="a"} [1-9]/);
  });

  it("an engine's own 4xx and 429 never count", async () => {
    const test = await rig();
    test.a.behaviour = test.b.behaviour = { status: 429, body: { error: "slow down" } };
    for (let i = 0; i < 12; i++) expect((await chat(test.url)).status).toBe(429);
    expect(test.router.core.health.breaker(workerId("a")).at).toBe("closed");
  });
});

describe("engines that fail after the first byte", () => {
  it.each(["reset-midway", "stop-midway"] as const)("%s: the stream ends with an error event", async (behaviour) => {
    const test = await rig();
    test.a.behaviour = behaviour;
    const text = await (await chat(test.url, stream)).text();
    const events = text.trim().split("\n\n");
    expect(events.slice(0, 2).every((e) => e.includes('"content"'))).toBe(true);
    const last = JSON.parse(events.at(-1)!.slice("data: ".length));
    expect(last).toMatchObject({ error: { code: "upstream_failed", type: "server_error" }, src: "cgn" });
    expect(events).toHaveLength(3);
    expect(inFlight(test)).toEqual([0, 0]);
  });

  it("a worker that goes down ends its streams although its connection stays open", async () => {
    const test = await rig();
    test.a.behaviour = "endless";
    const res = await chat(test.url, stream);
    const reading = res.text();
    await until(() => test.a.seen.length === 1);
    test.directory.set(testWorker("a", test.a.url, { state: "down", reason: "killed" }));
    expect(await reading).toContain("the engine is down: killed");
    expect(inFlight(test)).toEqual([0, 0]);
  });

  it("a worker that was restarted ends what ran before", async () => {
    const test = await rig();
    test.a.behaviour = "hang";
    const pending = chat(test.url);
    await until(() => test.a.seen.length === 1);
    test.directory.set(testWorker("a", test.a.url, { epoch: 2 }));
    const res = await pending;
    expect([res.status, res.headers.get("x-cgn-node")]).toEqual([200, "b"]);
  });
});

describe("clients that leave", () => {
  it("mid-stream: the engine is cut at once and the booking given back once", async () => {
    const test = await rig();
    test.a.behaviour = "endless";
    const leave = new AbortController();
    const res = await chat(test.url, stream, { signal: leave.signal });
    await res.body!.getReader().read();
    expect(inFlight(test)).toEqual([1, 0]);
    leave.abort();
    await until(() => test.a.seen[0]?.aborted === true);
    await until(() => inFlight(test)[0] === 0);
    const load = test.router.core.loads.of(workerId("a"));
    expect([load.streams, load.queuedTokens]).toEqual([0, 0]);
  });

  it("before the answer: likewise", async () => {
    const test = await rig();
    test.a.behaviour = "hang";
    const leave = new AbortController();
    const pending = chat(test.url, CHAT, { signal: leave.signal }).catch(() => "left");
    await until(() => test.a.seen.length === 1);
    leave.abort();
    expect(await pending).toBe("left");
    await until(() => test.a.seen[0]?.aborted === true && inFlight(test)[0] === 0);
  });
});

describe("a client that reads slowly", () => {
  it("slows the engine down instead of filling the router's memory, and gets every byte", async () => {
    const test = await rig();
    test.a.behaviour = "flood";
    const res = await new Promise<IncomingMessage>((resolve, reject) => {
      const headers = { "content-type": "application/json" };
      const req = httpRequest(`${test.url}/v1/chat/completions`, { method: "POST", headers }, resolve);
      req.on("error", reject);
      req.end(JSON.stringify(stream));
    });
    res.pause();
    let before = -1;
    // Nothing moves any more once all buffers on the way are full.
    while (before !== test.a.flooded) {
      before = test.a.flooded;
      await new Promise((resolve) => setTimeout(resolve, 150));
    }
    expect(test.a.flooded).toBeLessThan(24 * 1024 * 1024);
    let taken = 0;
    for await (const chunk of res) taken += (chunk as Buffer).length;
    expect(taken).toBe(test.a.flooded + "data: [DONE]\n\n".length);
  });
});

describe("admission", () => {
  it("holds back what goes beyond max_concurrent_per_replica, and refuses beyond max_queue with 429", async () => {
    const test = await rig({}, { admission: { maxConcurrentPerReplica: 1, maxQueue: 1 } });
    test.a.behaviour = test.b.behaviour = "hang";
    const leave = new AbortController();
    const held = [1, 2].map(() => chat(test.url, CHAT, { signal: leave.signal }).catch(() => undefined));
    await until(() => test.a.seen.length + test.b.seen.length === 2);
    const waiting = chat(test.url);
    await until(() => test.router.core.admissions.queued("m") === 1);
    const refused = await chat(test.url);
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "1"]);
    test.a.behaviour = test.b.behaviour = "answer";
    leave.abort();
    expect((await waiting).status).toBe(200);
    await Promise.all(held);
    expect(test.router.core.admissions.running("m")).toBe(0);
  });
});

describe("the admin port", () => {
  const json = async (url: string, init?: RequestInit) => (await fetch(url, init)).json();

  it("tells of readiness, status, decisions and metrics", async () => {
    const test = await rig();
    await (await chat(test.url, CHAT, { headers: { "x-request-id": "r1" } })).text();
    expect((await fetch(`${test.admin}/healthz`)).status).toBe(200);
    expect(await json(`${test.admin}/readyz`)).toMatchObject({ ready: true, models: { m: { ready: 2 } } });
    const { workers } = await json(`${test.admin}/v1/cgn/status`);
    expect(workers[0]).toMatchObject({ id: "a", cache: { requests: 1, reportedTokens: 16 } });
    const record = await json(`${test.admin}/v1/cgn/decisions/r1`);
    expect(record).toMatchObject({
      model: "m",
      policy: "round_robin",
      attempts: [{ worker: "a", candidates: [{ worker: "a" }, { worker: "b" }] }],
      outcome: { result: "ok", status: 200, cachedTokens: 16 },
    });
    expect((await json(`${test.admin}/v1/cgn/decisions`)).decisions).toHaveLength(1);
    const metrics = await (await fetch(`${test.admin}/metrics`)).text();
    expect(metrics).toContain('cgn_router_requests_total{model="m",subject="anonymous",outcome="ok"} 1');
    expect(metrics).toContain("cgn_router_cached_tokens_error_count");
    expect(metrics).toContain('cgn_router_cache_hit_ratio{model="m"} 0.8');
  });

  it("readyz is 503 when no worker is ready", async () => {
    const test = await rig({ state: "starting", reason: "loading" });
    const res = await fetch(`${test.admin}/readyz`);
    expect([res.status, (await res.json()).notReady]).toEqual([
      503,
      { a: "starting: loading", b: "starting: loading" },
    ]);
  });

  it("cordon takes a node out of new choices, uncordon puts it back", async () => {
    const test = await rig();
    const mark = (verb: string) => json(`${test.admin}/v1/cgn/nodes/a/${verb}`, { method: "POST" });
    const ready = async (id: string) => {
      const text = await (await fetch(`${test.admin}/metrics`)).text();
      return new RegExp(`^cgn_router_worker_ready\\{worker="${id}",model="m"\\} (\\d)$`, "m").exec(text)?.[1];
    };
    expect(await mark("cordon")).toMatchObject({ mark: "cordoned", workers: 1 });
    expect([await ready("a"), await ready("b")]).toEqual(["0", "1"]);
    for (let i = 0; i < 3; i++) expect((await chat(test.url)).headers.get("x-cgn-node")).toBe("b");
    await mark("uncordon");
    const nodes = new Set<string | null>();
    for (let i = 0; i < 2; i++) nodes.add((await chat(test.url)).headers.get("x-cgn-node"));
    expect(nodes).toEqual(new Set(["a", "b"]));
    expect((await fetch(`${test.admin}/v1/cgn/nodes/zz/drain`, { method: "POST" })).status).toBe(404);
    expect((await fetch(`${test.admin}/v1/cgn/nodes/a/drain`)).status).toBe(405);
  });
});

describe("start() and drain()", () => {
  it("start() fails with PORT_IN_USE and the address", async () => {
    const { router } = await rig();
    const { port } = router.address;
    await expect(startTestRouter([], { listenHttp: { host: "127.0.0.1", port } })).rejects.toMatchObject({
      code: "PORT_IN_USE",
      message: expect.stringContaining(`127.0.0.1:${port}`),
    });
  });

  it("drain() lets streams end and takes no new connections", async () => {
    const test = await rig();
    test.a.behaviour = "endless";
    const res = await chat(test.url, stream);
    const reading = res.text();
    const draining = test.router.drain(5_000);
    await expect(chat(test.url)).rejects.toThrow();
    expect((await fetch(`${test.admin}/readyz`)).status).toBe(503);
    test.directory.set(testWorker("a", test.a.url, { state: "down", reason: "stopped" }));
    expect(await reading).toContain("stopped");
    await draining;
  });
});
