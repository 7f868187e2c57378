import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** An engine as the page's pictures want it: it has figures of its own, reports cached tokens, and some requests go wrong or never end. */
export interface PageEngine {
  readonly url: string;
  close(): Promise<void>;
}

/** What a prompt says to be treated otherwise. */
export const WAITS = "write a very long story";
export const FAILS = "break";

const WORDS = ["The", " capital", " of", " France", " is", " Paris", "."];

/**
 * @param kvUsage share of its KV cache that is in use
 * @param cachedOf tokens of a prompt that it reports as cached
 */
export async function startPageEngine(
  kvUsage: number,
  cachedOf: (prompt: string) => { readonly prompt: number; readonly cached: number },
): Promise<PageEngine> {
  let running = 0;
  const answer = async (req: IncomingMessage, res: ServerResponse): Promise<void> => {
    if (req.url === "/metrics") {
      const figures = { num_requests_running: running, num_requests_waiting: 0, kv_cache_usage_perc: kvUsage };
      res.end(
        Object.entries(figures)
          .map(([name, value]) => `vllm:${name}{model_name="m"} ${value}\n`)
          .join(""),
      );
      return;
    }
    const parts: Buffer[] = [];
    for await (const part of req) parts.push(part as Buffer);
    const body = Buffer.concat(parts).toString();
    if (body.includes(FAILS)) {
      res.writeHead(500, { "content-type": "application/json" });
      res.end(JSON.stringify({ error: { message: "EngineCore encountered an issue", type: "InternalServerError" } }));
      return;
    }
    running++;
    res.once("close", () => running--);
    const { prompt, cached } = cachedOf(body);
    const usage = {
      prompt_tokens: prompt,
      completion_tokens: WORDS.length,
      total_tokens: prompt + WORDS.length,
      prompt_tokens_details: { cached_tokens: cached },
    };
    if (body.includes('"stream":true')) stream(res, usage, body.includes(WAITS));
    else whole(res, usage);
  };
  const server = createServer((req, res) => void answer(req, res));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function whole(res: ServerResponse, usage: object): void {
  const message = { role: "assistant", content: WORDS.join("") };
  const choices = [{ index: 0, message, finish_reason: "stop" }];
  res.writeHead(200, { "content-type": "application/json" });
  res.end(JSON.stringify({ id: "x", object: "chat.completion", choices, usage }));
}

function stream(res: ServerResponse, usage: object, endless: boolean): void {
  const event = (choices: unknown[], more: object = {}): void =>
    void res.write(`data: ${JSON.stringify({ id: "x", object: "chat.completion.chunk", choices, ...more })}\n\n`);
  res.writeHead(200, { "content-type": "text/event-stream" });
  for (const content of WORDS) event([{ index: 0, delta: { content }, finish_reason: null }]);
  if (endless) return;
  event([{ index: 0, delta: {}, finish_reason: "stop" }]);
  event([], { usage });
  res.end("data: [DONE]\n\n");
}
