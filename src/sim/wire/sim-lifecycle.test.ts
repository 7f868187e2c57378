import { afterEach, describe, expect, it } from "vitest";
import {
  chat,
  closeAll,
  eventsFlag,
  freePort,
  post,
  replayFrom,
  startTracked,
  subscribe,
  subscribed,
  until,
  vllm,
} from "../testing/sim-client.ts";

afterEach(closeAll);

describe("a simulated vLLM's life", () => {
  it("frees a request's blocks when its client leaves", async () => {
    const server = await vllm([], "default");
    const leave = new AbortController();
    const asked = fetch(`${server.url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(chat("x", { stream: true, max_tokens: 5000, ignore_eos: true })),
      signal: leave.signal,
    });
    await asked;
    expect(server.engine.loop.model.running).toBe(1);
    leave.abort();
    await until(() => server.engine.loop.model.running === 0);
    expect(server.engine.loop.model.usedBlocks).toBe(0);
  });

  it("asks for the key on /v1 only", async () => {
    const server = await vllm(["--api-key", "k1"]);
    expect((await fetch(`${server.url}/v1/models`)).status).toBe(401);
    expect((await fetch(`${server.url}/v1/models`, { headers: { authorization: "Bearer k1" } })).status).toBe(200);
    expect((await fetch(`${server.url}/health`)).status).toBe(200);
  });

  it("fails as asked: status 500, a cut stream, no answer, and well again", async () => {
    const server = await vllm();
    await post(server, "/sim/fault", { kind: "error-500", count: 1 });
    expect((await post(server, "/v1/chat/completions", chat("x"))).status).toBe(500);
    await post(server, "/sim/fault", { kind: "cut-stream", chunks: 3 });
    await expect(post(server, "/v1/chat/completions", chat("x", { stream: true }))).rejects.toThrow();
    await post(server, "/sim/fault", { kind: "hang" });
    const signal = AbortSignal.timeout(100);
    await expect(fetch(`${server.url}/health`, { signal })).rejects.toThrow();
    await post(server, "/sim/fault", { kind: "clear" });
    expect((await post(server, "/v1/chat/completions", chat("x"))).status).toBe(200);
    expect((await post(server, "/sim/fault", { kind: "melt" })).status).toBe(400);
    const broken = await fetch(`${server.url}/sim/fault`, { method: "POST", body: '{"kind":' });
    expect(broken.status).toBe(400);
    expect((await broken.json()).error.message).toMatch(/^Cannot apply the fault: the body is no JSON \(.*\)\. Send /);
  });

  it("engine-crash: health 503, a stream ends with an error event, new requests get 500", async () => {
    const server = await vllm([], "default");
    const stream = chat("x", { stream: true, max_tokens: 5000, ignore_eos: true });
    const running = post(server, "/v1/chat/completions", stream);
    await until(() => server.engine.active.size === 1);
    await post(server, "/sim/fault", { kind: "engine-crash" });
    expect((await running).text).toMatch(/data: \{"error":.*\n\ndata: \[DONE\]\n\n$/);
    expect((await fetch(`${server.url}/health`)).status).toBe(503);
    expect((await post(server, "/v1/chat/completions", chat("y"))).status).toBe(500);
  });

  it("full-cache: a request waits until the fault is cleared; slow stretches every step", async () => {
    const server = await vllm();
    await post(server, "/sim/fault", { kind: "full-cache" });
    const waiting = post(server, "/v1/chat/completions", chat("x"));
    await until(() => server.engine.loop.model.waiting === 1);
    await post(server, "/sim/fault", { kind: "clear" });
    expect((await waiting).status).toBe(200);
    await post(server, "/sim/fault", { kind: "slow", factor: 7 });
    expect(server.engine.loop.model.slowdown).toBe(7);
  });

  it("drop-events and reorder-events change what is sent live, not what is replayed", async () => {
    const [port, replay] = [await freePort(), await freePort()];
    const server = await vllm(eventsFlag(port, replay));
    const sub = subscribe(port);
    await subscribed(server, sub);
    const say = (text: string) => post(server, "/v1/chat/completions", chat(text.repeat(40), { max_tokens: 1 }));
    await post(server, "/sim/fault", { kind: "drop-events", count: 1 });
    await say("a");
    await post(server, "/sim/fault", { kind: "reorder-events" });
    await say("b");
    await say("c");
    const last = BigInt(server.engine.publisher!.nextSeq - 1);
    const live: bigint[] = [];
    while (!live.includes(last - 1n)) live.push((await sub.receive())[1]!.readBigUInt64BE());
    expect(live.slice(-2)).toEqual([last, last - 1n]);
    expect(live).not.toContain(last - 2n);
    const replayed = (await replayFrom(replay, last - 2n)).map((frames) =>
      Buffer.from(frames[2]!, "base64").readBigUInt64BE(),
    );
    expect(replayed.slice(0, 3)).toEqual([last - 2n, last - 1n, last]);
  });

  it("refuses to start on a taken port", async () => {
    const first = await vllm();
    await expect(vllm(["--port", String(first.port)])).rejects.toMatchObject({ code: "PORT_IN_USE" });
  });

  it("terminate() lets a stream finish within --shutdown-timeout, and answers new requests 500", async () => {
    const server = await vllm(["--shutdown-timeout", "5"], "default");
    const running = post(server, "/v1/chat/completions", chat("x", { stream: true, max_tokens: 30, ignore_eos: true }));
    await until(() => server.engine.active.size === 1);
    const done = server.terminate();
    expect((await post(server, "/v1/chat/completions", chat("y"))).status).toBe(500);
    expect((await fetch(`${server.url}/health`)).status).toBe(200);
    expect((await running).text).toContain("[DONE]");
    await done;
    await expect(fetch(`${server.url}/health`)).rejects.toThrow();
  });

  it("terminate() ends a longer stream with an error event when the time is over", async () => {
    const server = await vllm(["--shutdown-timeout", "0"], "default");
    const slow = { ...server.engine.options, shutdownTimeoutS: 0.05 };
    const other = await startTracked({ ...slow, port: 0 });
    const answer = post(other, "/v1/chat/completions", chat("x", { stream: true, max_tokens: 9000, ignore_eos: true }));
    await until(() => other.engine.active.size === 1);
    await other.terminate();
    const { text } = await answer;
    expect(text).toMatch(/data: \{"error":.*"code":500\}\}\n\ndata: \[DONE\]\n\n$/);
  });
});
