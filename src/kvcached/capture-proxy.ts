import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { CgnError } from "../core/errors.ts";

/** What a recording proxy tells of each chat that passes. */
export interface ChatRecorder {
  begin(n: number, body: Readonly<Record<string, unknown>>): void;
  end(n: number, body: Readonly<Record<string, unknown>>, status: number, usage: unknown): void;
  /** The engine's cache was asked to be reset, and it said yes. */
  reset(): void;
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
  if (chat !== undefined) recorder.end(n, chat, reply.status, usageOf(Buffer.concat(parts).toString()));
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

/** `usage` of an answer: of the JSON, or of the last SSE chunk that has one. */
function usageOf(text: string): unknown {
  const whole = parse(Buffer.from(text))?.["usage"];
  if (whole !== undefined) return whole;
  const chunks = text.split("\n").filter((line) => line.startsWith("data:") && line.includes('"usage"'));
  for (const line of chunks.reverse()) {
    const usage = parse(Buffer.from(line.slice(5)))?.["usage"];
    if (usage !== undefined && usage !== null) return usage;
  }
  return undefined;
}
