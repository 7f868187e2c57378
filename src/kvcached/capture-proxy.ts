import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { CgnError } from "../core/errors.ts";

/** What a recording proxy tells of each chat that passes. */
export interface ChatRecorder {
  begin(n: number, body: Readonly<Record<string, unknown>>): void;
  end(n: number, status: number, answer: RecordedAnswer): void;
  /** The engine's cache was asked to be reset, and it said yes. */
  reset(): void;
}

/** What an answer says that a verification needs. */
export interface RecordedAnswer {
  readonly usage: unknown;
  /** Text of the first choice, "" for none. */
  readonly text: string;
  /** The prompt's token ids, where the request asked for them (`return_token_ids`, vLLM 0.32). */
  readonly promptTokenIds: readonly number[] | undefined;
}

export interface CaptureProxy {
  readonly port: number;
  close(): Promise<void>;
}

const MAX_BODY_BYTES = 64 * 2 ** 20;
const MAX_ANSWER_BYTES = 64 * 2 ** 20;
/** Headers that belong to one connection. */
const HOP = new Set([
  "connection",
  "keep-alive",
  "transfer-encoding",
  "host",
  "content-length",
  "expect",
  "upgrade",
  "te",
]);

/**
 * Pass requests on to an engine unchanged and record the chats. Point a router's engine at it, or a client.
 * @throws CgnError PORT_IN_USE
 */
export async function startCaptureProxy(
  engine: string,
  listen: { readonly host: string; readonly port: number },
  recorder: ChatRecorder,
): Promise<CaptureProxy> {
  let count = 0;
  const server = createServer((req, res) => {
    pass(engine, req, res, recorder, () => count++).catch((error) => {
      if (res.headersSent) res.destroy();
      else
        res
          .writeHead(502, { "content-type": "application/json" })
          .end(JSON.stringify({ error: { message: String(error), src: "cgn" } }));
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", (cause) => {
      const message = `Cannot listen on ${listen.host}:${listen.port}: ${cause.message}. Choose another address`;
      reject(new CgnError("PORT_IN_USE", message, {}, { cause }));
    });
    server.listen(listen.port, listen.host, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

async function pass(
  engine: string,
  req: IncomingMessage,
  res: ServerResponse,
  recorder: ChatRecorder,
  number: () => number,
) {
  const body = await readBody(req);
  const path = req.url ?? "/";
  const chat = req.method === "POST" && path.split("?")[0] === "/v1/chat/completions" ? parse(body) : undefined;
  const n = chat === undefined ? -1 : number();
  const left = new AbortController();
  res.once("close", () => left.abort());
  if (chat !== undefined) recorder.begin(n, chat);
  const headers = Object.entries(req.headers).flatMap(([key, value]) =>
    HOP.has(key) || value === undefined ? [] : [[key, String(value)] as [string, string]],
  );
  const reply = await fetch(`${engine}${path}`, {
    method: req.method ?? "GET",
    headers: [...headers, ["accept-encoding", "identity"]],
    ...(body.length === 0 ? {} : { body }),
    signal: left.signal,
  });
  res.writeHead(
    reply.status,
    Object.fromEntries([...reply.headers].filter(([key]) => !HOP.has(key) && key !== "content-encoding")),
  );
  res.flushHeaders();
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of reply.body === null ? [] : Readable.fromWeb(reply.body as never)) {
    size += part.length;
    if (chat !== undefined && size <= MAX_ANSWER_BYTES) parts.push(part);
    if (!res.write(part)) await new Promise((resolve) => res.once("drain", resolve));
  }
  res.end();
  if (chat !== undefined) recorder.end(n, reply.status, answerOf(Buffer.concat(parts).toString()));
  else if (path.startsWith("/reset_prefix_cache") && reply.ok) recorder.reset();
}

async function readBody(req: IncomingMessage): Promise<Buffer<ArrayBuffer>> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of req as AsyncIterable<Buffer>) {
    size += part.length;
    if (size > MAX_BODY_BYTES) throw new Error(`the request has over ${MAX_BODY_BYTES} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts);
}

function parse(body: Buffer): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(body.toString());
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** Of the JSON, or of all SSE chunks together. */
function answerOf(text: string): RecordedAnswer {
  const whole = parse(Buffer.from(text));
  const parts = whole === undefined ? chunksOf(text) : [whole];
  let usage: unknown;
  let promptTokenIds: readonly number[] | undefined;
  let answer = "";
  for (const part of parts) {
    usage = part["usage"] ?? usage;
    const choice = (part["choices"] as readonly Json[] | undefined)?.[0];
    const message = (choice?.["message"] ?? choice?.["delta"]) as Json | undefined;
    if (typeof message?.["content"] === "string") answer += message["content"];
    const ids = part["prompt_token_ids"];
    if (Array.isArray(ids)) promptTokenIds = ids as readonly number[];
  }
  return { usage, text: answer, promptTokenIds };
}

type Json = Readonly<Record<string, unknown>>;

function chunksOf(text: string): readonly Json[] {
  return text.split("\n").flatMap((line) => {
    const chunk = line.startsWith("data:") ? parse(Buffer.from(line.slice(5))) : undefined;
    return chunk === undefined ? [] : [chunk];
  });
}
