import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** How the engine treats the next requests. */
export type Behaviour =
  | "answer"
  /** Cut the connection when the request is read. */
  | "reset"
  /** Answer one request a connection, and cut the connection when a second one comes. */
  | "one-a-connection"
  /** Cut it after the first events of a stream, or amid a whole answer. */
  | "reset-midway"
  /** End the stream cleanly, but without a finish. */
  | "stop-midway"
  /** Read the request and never answer. */
  | "hang"
  /** Stream without end, an event each 5 ms. */
  | "endless"
  /** Stream 32 MB of events, as fast as they are taken. */
  | "flood"
  | { readonly status: number; readonly body: object };

export interface SeenRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
  /** The router cut it before the answer's end. */
  aborted: boolean;
}

/** An OpenAI-like engine on loopback that can misbehave. */
export interface FakeEngine {
  readonly url: string;
  /** Bytes of floods that were taken. */
  flooded: number;
  behaviour: Behaviour;
  readonly seen: SeenRequest[];
  close(): Promise<void>;
}

/** What vLLM answers to pages by default. */
const OF_VLLM = { "access-control-allow-origin": "*" };

const WORDS = ["The", " capital", " of", " France", " is", " Paris", "."];
const USAGE = { prompt_tokens: 20, completion_tokens: WORDS.length, total_tokens: 20 + WORDS.length };

export async function startFakeEngine(): Promise<FakeEngine> {
  const seen: SeenRequest[] = [];
  const used = new WeakSet<object>();
  const server = createServer(async (req, res) => {
    if (engine.behaviour === "one-a-connection" && used.has(req.socket)) return void req.socket.destroy();
    used.add(req.socket);
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks).toString();
    const request: SeenRequest = {
      method: req.method ?? "",
      url: req.url ?? "",
      headers: req.headers,
      body,
      aborted: false,
    };
    seen.push(request);
    res.on("close", () => {
      request.aborted = !res.writableFinished;
    });
    if (engine.behaviour === "flood") flood(engine, res);
    else respond(engine.behaviour, body, res);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const engine: FakeEngine = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    flooded: 0,
    behaviour: "answer",
    seen,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  return engine;
}

const FLOOD_BYTES = 32 * 1024 * 1024;

function flood(engine: FakeEngine, res: ServerResponse): void {
  const event = Buffer.from(`data: {"choices":[{"delta":{"content":"${"x".repeat(16_000)}"}}]}\n\n`);
  res.writeHead(200, { "content-type": "text/event-stream" });
  const more = (): void => {
    while (engine.flooded < FLOOD_BYTES) {
      engine.flooded += event.length;
      if (!res.write(event)) {
        res.once("drain", more);
        return;
      }
    }
    res.end("data: [DONE]\n\n");
  };
  more();
}

function respond(behaviour: Behaviour, body: string, res: ServerResponse): void {
  if (behaviour === "hang") return;
  if (behaviour === "reset") {
    res.socket?.destroy();
    return;
  }
  if (typeof behaviour === "object") {
    res.writeHead(behaviour.status, { "content-type": "application/json" });
    res.end(JSON.stringify(behaviour.body));
    return;
  }
  const json = body.startsWith("{") ? JSON.parse(body) : {};
  if (json.stream === true) stream(behaviour, json.stream_options?.include_usage === true, res);
  else whole(behaviour, res);
}

function whole(behaviour: Behaviour, res: ServerResponse): void {
  const message = { role: "assistant", content: WORDS.join("") };
  const choices = [{ index: 0, message, finish_reason: "stop" }];
  const usage = { ...USAGE, prompt_tokens_details: { cached_tokens: 16 } };
  const answer = Buffer.from(JSON.stringify({ id: "x", object: "chat.completion", choices, usage }));
  res.writeHead(200, {
    "content-type": "application/json",
    "content-length": answer.length,
    "x-engine": "fake",
    ...OF_VLLM,
  });
  if (behaviour === "reset-midway") res.write(answer.subarray(0, 40), () => res.socket?.destroy());
  else res.end(answer);
}

function stream(behaviour: Behaviour, usage: boolean, res: ServerResponse): void {
  const chunk = (choices: unknown[], more: object = {}) =>
    `data: ${JSON.stringify({ id: "x", object: "chat.completion.chunk", choices, ...more })}\n\n`;
  const word = (content: string) => chunk([{ index: 0, delta: { content }, finish_reason: null }]);
  res.writeHead(200, { "content-type": "text/event-stream" });
  if (behaviour === "endless") {
    const timer = setInterval(() => res.write(word("x")), 5);
    res.on("close", () => clearInterval(timer));
    return;
  }
  if (behaviour === "reset-midway" || behaviour === "stop-midway") {
    // Half an event at the end: it must not reach the client.
    res.write(`${word("The")}${word(" capital")}data: {"id":"ha`, () => {
      if (behaviour === "reset-midway") res.socket?.destroy();
      else res.end();
    });
    return;
  }
  for (const text of WORDS) res.write(word(text));
  res.write(chunk([{ index: 0, delta: {}, finish_reason: "stop" }]));
  if (usage) res.write(chunk([], { usage: { ...USAGE, prompt_tokens_details: { cached_tokens: 16 } } }));
  res.end("data: [DONE]\n\n");
}
