import { afterEach, describe, expect, it } from "vitest";
import { allPathsBut } from "../core/api-paths.ts";
import type { WorkerInfo } from "../core/worker.ts";
import { type FakeEngine, startFakeEngine } from "./testing/fake-engine.ts";
import { startTestRouter, testWorker } from "./testing/test-router.ts";

const CHAT_ONLY = { lacks: allPathsBut(["/v1/chat/completions", "/v1/completions"]) };

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

/** Two engines `a` and `b` of one model. */
async function rig(a: Partial<WorkerInfo> = {}, b: Partial<WorkerInfo> = {}) {
  const one = await startFakeEngine();
  const two = await startFakeEngine();
  const { router, url } = await startTestRouter([testWorker("a", one.url, a), testWorker("b", two.url, b)]);
  closers.push(one.close, two.close, () => router.close());
  return { a: one, b: two, url };
}

async function post(url: string, path: string, body: unknown, headers: Record<string, string> = {}) {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const res = await fetch(url + path, { method: "POST", body: text, headers });
  return { status: res.status, node: res.headers.get("x-cgn-node"), headers: res.headers, text: await res.text() };
}

const askedOf = (engine: FakeEngine) => engine.seen.map((r) => r.url);

describe("an endpoint that not every engine has", () => {
  it("is asked of those that have it", async () => {
    const { a, url } = await rig({ traits: CHAT_ONLY });
    for (let i = 0; i < 4; i++) expect((await post(url, "/v1/rerank", { model: "m" })).node).toBe("b");
    expect(a.seen).toHaveLength(0);
  });

  it("is 501 where none has it, and 503 where one that has it is not ready", async () => {
    const none = await rig({ traits: CHAT_ONLY }, { traits: CHAT_ONLY });
    const refused = await post(none.url, "/v1/rerank", { model: "m" });
    expect(refused.status).toBe(501);
    expect(JSON.parse(refused.text).error).toMatchObject({ code: "not_supported" });
    expect(refused.headers.get("x-should-retry")).toBe("false");
    const later = await rig({ traits: CHAT_ONLY }, { state: "starting" });
    expect((await post(later.url, "/v1/rerank", { model: "m" })).status).toBe(503);
  });

  it("asks SDKs not to try again what no waiting lets in", async () => {
    const engine = await startFakeEngine();
    const settings = { policy: "ttft", admission: { ttftSloMs: 0.001 } } as const;
    const { router, url } = await startTestRouter([testWorker("a", engine.url)], settings);
    closers.push(engine.close, () => router.close());
    const chat = { model: "m", messages: [{ role: "user", content: "hi" }] };
    const { status, headers } = await post(url, "/v1/chat/completions", chat);
    expect([status, headers.get("retry-after"), headers.get("x-should-retry")]).toEqual([429, null, "false"]);
  });

  it("is learnt from an engine's answer, which no client sees where another has it", async () => {
    const { a, b, url } = await rig();
    a.behaviour = { status: 404, body: { detail: "Not Found" } };
    for (let i = 0; i < 6; i++)
      expect((await post(url, "/v1/embeddings", { model: "m", input: "x" })).status).toBe(200);
    expect(askedOf(a).length).toBeLessThanOrEqual(1);
    b.behaviour = { status: 404, body: { detail: "Not Found" } };
    expect((await post(url, "/v1/embeddings", { model: "m", input: "x" })).status).toBe(501);
  });

  it("keeps an engine's 404 about the request as it came", async () => {
    const { a, b, url } = await rig();
    const body = { error: { message: "no such voice", type: "NotFoundError", code: 404 } };
    a.behaviour = b.behaviour = { status: 404, body };
    const said = await post(url, "/v1/embeddings", { model: "m", input: "x" });
    expect([said.status, JSON.parse(said.text)]).toEqual([404, body]);
  });
});

describe("POST /v1/messages", () => {
  const body = { model: "m", max_tokens: 9, messages: [{ role: "user", content: "capital?" }] };

  it("is converted for an engine that has chat completions only", async () => {
    const { a, url } = await rig({ traits: CHAT_ONLY, upstreamModel: "up" }, { traits: CHAT_ONLY, state: "down" });
    const whole = JSON.parse((await post(url, "/v1/messages?beta=true", body)).text);
    expect(whole).toMatchObject({ type: "message", model: "m", stop_reason: "end_turn" });
    expect(whole.usage.cache_read_input_tokens).toBe(16);
    expect(a.seen[0]?.url).toBe("/v1/chat/completions");
    expect(JSON.parse(a.seen[0]!.body)).toEqual({ model: "up", max_tokens: 9, messages: body.messages });
    const { text } = await post(url, "/v1/messages", { ...body, stream: true });
    const events = [...text.matchAll(/^event: (.*)$/gm)].map((m) => m[1]);
    expect([events[0], events.at(-1)]).toEqual(["message_start", "message_stop"]);
  });

  it.each(["reset-midway", "stop-midway"] as const)(
    "%s: a converted stream ends with an error event of its API",
    async (behaviour) => {
      const { a, url } = await rig({ traits: CHAT_ONLY }, { traits: CHAT_ONLY, state: "down" });
      a.behaviour = behaviour;
      const { text } = await post(url, "/v1/messages", { ...body, stream: true });
      expect(text).toContain("message_start");
      expect(text).toMatch(/event: error\ndata: \{"type":"error","error":\{"type":"api_error"[^\n]*\n\n$/);
      expect(text).not.toContain("message_stop");
    },
  );

  it("brings an engine's error into its form, whatever form it had", async () => {
    const { a, b, url } = await rig();
    a.behaviour = b.behaviour = {
      status: 400,
      body: { object: "error", message: "too long", type: "BadRequestError" },
    };
    const said = await post(url, "/v1/messages", body);
    expect(said.status).toBe(400);
    expect(JSON.parse(said.text)).toMatchObject({
      type: "error",
      error: { type: "invalid_request_error", message: "too long" },
    });
  });

  it("goes to the engine that has it where the request cannot be converted", async () => {
    const { url } = await rig({ traits: CHAT_ONLY });
    const tools = [{ type: "web_search_20250305", name: "w" }];
    for (let i = 0; i < 4; i++) expect((await post(url, "/v1/messages", { ...body, tools })).node).toBe("b");
  });
});

describe("a form", () => {
  it("is routed by its model, which is renamed for the engine", async () => {
    const { a, url } = await rig({ upstreamModel: "whisper-up" }, { state: "down" });
    const form = '--x\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n--x--\r\n';
    const type = { "content-type": "multipart/form-data; boundary=x" };
    expect((await post(url, "/v1/audio/transcriptions", form, type)).status).toBe(200);
    expect(a.seen[0]?.body).toBe(form.replace("\r\nm\r\n", "\r\nwhisper-up\r\n"));
  });
});

describe("a path that nobody has", () => {
  const paths = "/v1/chat/completions";
  const said = async (url: string, path: string, init?: RequestInit) => {
    const res = await fetch(url + path, init);
    return { status: res.status, type: res.headers.get("content-type"), error: (await res.json()).error };
  };
  const missing = {
    status: 404,
    type: "application/json",
    error: { code: "route_not_found", message: expect.stringContaining(paths), type: "invalid_request_error" },
  };

  it("is 404 in OpenAI's form with those there are, whoever finds out", async () => {
    const { a, b, url } = await rig({}, { models: ["other"] });
    expect(await said(url, "/chat/completions", { method: "POST", body: "{}" })).toMatchObject(missing);
    // Below /v1/ an engine may have what the router does not know; nobody can say which without a model.
    expect(await said(url, "/v1/nothing")).toMatchObject(missing);
    for (const body of [{ detail: "Not Found" }, { error: { message: "File Not Found", type: "not_found_error" } }]) {
      a.behaviour = b.behaviour = { status: 404, body };
      const asked = { method: "POST", body: JSON.stringify({ model: "m" }) };
      expect(await said(url, "/v1/nothing", asked)).toMatchObject(missing);
    }
  });

  it("is the engine's word where it has the path, and not what is asked for there", async () => {
    const { a, url } = await rig({}, { models: ["other"] });
    const body = { error: { message: "there is no file 7", type: "not_found", code: 7 } };
    a.behaviour = { status: 404, body };
    const asked = { method: "POST", body: JSON.stringify({ model: "m" }) };
    expect(await said(url, "/v1/files/7", asked)).toMatchObject({ status: 404, error: body.error });
  });
});

describe("GET /health", () => {
  it("is 200 while some model is served, and 503 else, without a key", async () => {
    const served = await rig({ state: "down" });
    const ok = await fetch(`${served.url}/health`);
    expect([ok.status, await ok.json()]).toEqual([200, { status: "ok" }]);
    expect((await fetch(`${served.url}/health`, { method: "HEAD" })).status).toBe(200);
    expect((await fetch(`${served.url}/health`, { method: "POST" })).status).toBe(405);
    const none = await rig({ state: "down" }, { state: "starting" });
    expect((await fetch(`${none.url}/health`)).status).toBe(503);
  });
});
