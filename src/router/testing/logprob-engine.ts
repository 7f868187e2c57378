import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** What an engine that tells log probabilities answers. */
export interface LogprobScript {
  /** Log probability of each token. */
  logprobs: number[];
  /** Text of each token. */
  text: string;
  /** It tells none, whatever is asked. */
  silent?: boolean;
  /** It answers so instead. */
  status?: number;
  /** It waits, after so many tokens of a stream, until it is cut. */
  hangAfter?: number;
  /** It cuts the connection after so many tokens of a stream. */
  cutAfter?: number;
}

export interface LogprobEngine {
  readonly url: string;
  readonly script: LogprobScript;
  /** Bodies that it got. */
  readonly seen: Readonly<Record<string, unknown>>[];
  /** Answers that were cut from the other side. */
  cut: number;
  close(): Promise<void>;
}

/** An engine on loopback that tells log probabilities as vLLM does: where it is asked, `null` otherwise. */
export async function startLogprobEngine(script: LogprobScript): Promise<LogprobEngine> {
  const seen: Readonly<Record<string, unknown>>[] = [];
  const server = createServer((req, res) => void serve(req, res));
  async function serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    const body = JSON.parse(Buffer.concat(chunks).toString()) as Record<string, unknown>;
    seen.push(body);
    res.on("close", () => {
      if (!res.writableFinished) engine.cut++;
    });
    if (script.status !== undefined) {
      res.writeHead(script.status, { "content-type": "application/json" });
      res.end(JSON.stringify({ error: { message: `it answers ${script.status}`, code: script.status } }));
    } else if (body["stream"] === true) stream(script, body, res);
    else whole(script, body, res);
  }
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const engine: LogprobEngine = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    script,
    seen,
    cut: 0,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  return engine;
}

type Body = Readonly<Record<string, unknown>>;

const asks = ({ silent }: LogprobScript, body: Body): boolean =>
  silent !== true && (body["logprobs"] === true || typeof body["logprobs"] === "number");

const isChat = (body: Body): boolean => Array.isArray(body["messages"]);

function told(script: LogprobScript, body: Body, from: number, to: number): unknown {
  if (!asks(script, body)) return null;
  const logprobs = script.logprobs.slice(from, to);
  if (!isChat(body)) return { tokens: logprobs.map(() => script.text), token_logprobs: logprobs, top_logprobs: null };
  const top = Number(body["top_logprobs"] ?? 0);
  return {
    content: logprobs.map((logprob) => ({
      token: script.text,
      logprob,
      top_logprobs: Array.from({ length: top }, () => ({ token: script.text, logprob })),
    })),
  };
}

function usage({ logprobs }: LogprobScript): object {
  return { prompt_tokens: 10, completion_tokens: logprobs.length, total_tokens: 10 + logprobs.length };
}

function whole(script: LogprobScript, body: Body, res: ServerResponse): void {
  const { length } = script.logprobs;
  const content = script.text.repeat(length);
  const n = Number(body["n"] ?? 1);
  const choices = Array.from({ length: n }, (_, index) => ({
    index,
    ...(isChat(body) ? { message: { role: "assistant", content } } : { text: content }),
    logprobs: told(script, body, 0, length),
    finish_reason: "stop",
  }));
  const answer = Buffer.from(JSON.stringify({ id: "a", model: body["model"], choices, usage: usage(script) }));
  res.writeHead(200, { "content-type": "application/json", "content-length": answer.length });
  res.end(answer);
}

function stream(script: LogprobScript, body: Body, res: ServerResponse): void {
  const event = (of: object): string => `data: ${JSON.stringify({ id: "a", model: body["model"], ...of })}\n\n`;
  const part = (text: string): object => (isChat(body) ? { delta: { content: text } } : { text });
  res.writeHead(200, { "content-type": "text/event-stream" });
  const n = Number(body["n"] ?? 1);
  for (let k = 0; k < script.logprobs.length; k++) {
    if (k === script.hangAfter) return;
    if (k === script.cutAfter) return void setImmediate(() => res.socket?.destroy());
    for (let index = 0; index < n; index++) {
      const logprobs = told(script, body, k, k + 1);
      res.write(event({ choices: [{ index, ...part(script.text), logprobs, finish_reason: null }] }));
    }
  }
  const ends = Array.from({ length: n }, (_, index) => ({ index, ...part(""), logprobs: null, finish_reason: "stop" }));
  res.write(event({ choices: ends }));
  const options = body["stream_options"] as { include_usage?: boolean } | undefined;
  if (options?.include_usage === true) res.write(event({ choices: [], usage: usage(script) }));
  res.end("data: [DONE]\n\n");
}
