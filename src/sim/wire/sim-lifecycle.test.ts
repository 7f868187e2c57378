import { afterEach, describe, expect, it } from "vitest";
import { chat, closeAll, post, startTracked, until, vllm } from "../testing/sim-client.ts";

afterEach(closeAll);

describe("a simulated vLLM's life", () => {
  it("frees a request's blocks when its client leaves", async () => {
    const server = await vllm([], "default");
    const leave = new AbortController();
    const asked = fetch(`${server.url}/v1/chat/completions`, {
      method: "POST",
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
