import { createServer, type RequestListener } from "node:http";
import { afterEach, describe, expect, it } from "vitest";
import { chatTurn, listModels } from "./chat-client.ts";
import { figures } from "./run.ts";

let close: () => void = () => {};
afterEach(() => close());

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  close = () => server.close();
  const address = server.address();
  return `127.0.0.1:${typeof address === "object" && address ? address.port : 0}/v1`;
}

const signal = new AbortController().signal;
const event = (data: unknown): string => `data: ${JSON.stringify(data)}\n\n`;
const ask = (url: string, key?: string, onText: (text: string) => void = () => {}) =>
  chatTurn({ url, key }, { model: "m", messages: [{ role: "user", content: "hi" }] }, () => 0, onText, signal);

describe("chatTurn()", () => {
  it("gives the text as it comes, and the figures of headers and usage", async () => {
    let asked = "";
    const url = await serve((req, res) => {
      asked = String(req.headers.authorization);
      res.writeHead(200, {
        "content-type": "text/event-stream",
        "x-cgn-node": "d",
        "x-cgn-prefill-node": "p",
        "x-cgn-predicted-cached-tokens": "32",
      });
      res.write(event({ choices: [{ delta: { role: "assistant", content: "" } }], usage: null }));
      res.write(event({ choices: [{ delta: { content: "Pa" } }] }));
      res.write(event({ choices: [{ delta: { content: "ris" } }] }));
      const usage = { prompt_tokens: 40, completion_tokens: 2, prompt_tokens_details: { cached_tokens: 32 } };
      res.end(`${event({ choices: [], usage })}data: [DONE]\n\n`);
    });
    const pieces: string[] = [];
    const turn = await ask(url, "cgn-key", (text) => void pieces.push(text));
    expect(pieces).toEqual(["Pa", "ris"]);
    expect(asked).toBe("Bearer cgn-key");
    expect(turn).toMatchObject({ text: "Paris", node: "d", prefillNode: "p", predictedTokens: 32, cachedTokens: 32 });
    expect(figures({ ...turn, firstMs: 70, totalMs: 170 })).toBe(
      "p → d · 32 of 40 prompt tokens cached (32 predicted) · first token 70 ms · 2 tokens, 10/s",
    );
  });

  it("tells a port where nothing listens from an endpoint that fails", async () => {
    const url = await serve((_req, res) => {
      res.writeHead(503, { "content-type": "application/json" });
      res.end(JSON.stringify({ error: { message: "no engine is ready" } }));
    });
    const failed = { code: "UPSTREAM_FAILED", message: "The endpoint fails (503): no engine is ready" };
    await expect(ask(url)).rejects.toMatchObject(failed);
    close();
    const gone = await serve((req) => req.socket.destroy());
    await expect(ask(gone)).rejects.toMatchObject({
      code: "DEPENDENCY_UNREACHABLE",
      message: expect.not.stringContaining("listens"),
    });
    close();
    await expect(ask(gone)).rejects.toThrow(/nothing listens there\. Start the endpoint with cgn up/);
  });

  it("tells the endpoint's own words when it refuses, and when a stream breaks", async () => {
    let n = 0;
    const url = await serve((_req, res) => {
      if (n++ === 0) {
        res.writeHead(404, { "content-type": "application/json" });
        res.end(JSON.stringify({ error: { message: "no such model" } }));
      } else {
        res.writeHead(200, { "content-type": "text/event-stream" });
        res.end(event({ error: { message: "the engine died" } }));
      }
    });
    await expect(ask(url)).rejects.toThrow(/refuses \(404\): no such model/);
    await expect(ask(url)).rejects.toThrow(/the engine died/);
  });

  it("says how to start an endpoint when nobody listens", async () => {
    const url = await serve(() => {});
    close();
    await new Promise((resolve) => setImmediate(resolve));
    await expect(listModels({ url, key: undefined }, signal)).rejects.toThrow(/cgn up/);
  });
});
