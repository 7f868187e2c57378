import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from "node:http";

/** The largest body that is read; engines have no limit worth naming. */
const MOST_BYTES = 64 * 1024 * 1024;

/** What an engine's HTTP server puts around its answers. */
export interface Manners {
  readonly json: string;
  readonly stream: string;
  /** On each answer. */
  readonly headers: Readonly<Record<string, string>>;
  /** On streams besides. */
  readonly streamHeaders?: Readonly<Record<string, string>>;
  /** The connection ends with an answer of this status (true), or stays. */
  closesAfter?(status: number): boolean;
  /** `Keep-Alive` where the connection stays. */
  readonly keepAlive?: string;
  /** After a stream the connection ends, without `Connection: close` before it. */
  readonly dropsAfterStream?: boolean;
}

/** FastAPI under uvicorn: vLLM 0.32.0. */
export const UVICORN: Manners = {
  json: "application/json",
  stream: "text/event-stream; charset=utf-8",
  headers: { server: "uvicorn" },
};

/** SGLang 0.5.23 adds what its CORS layer says. */
export const SGLANG_MANNERS: Manners = { ...UVICORN, headers: { server: "uvicorn", vary: "Origin" } };

/** One HTTP request and its answer, with what the handlers need of them. */
export interface Exchange {
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly query: URLSearchParams;
  header(name: string): string | undefined;
  /** The body as JSON. @throws SyntaxError when it is none */
  json(): Promise<unknown>;
  /** The body as text. */
  text(): Promise<string>;
  sendJson(status: number, body: object): void;
  sendText(status: number, text: string, type?: string): void;
  /** Begin an event stream; headers go out at once. */
  openStream(): void;
  /** One event of the stream: its name, where it has one, and its `data:` line. */
  event(data: string, name?: string): void;
  end(): void;
  /** Break the connection in the middle. */
  cut(): void;
  /** Called once if the client leaves before the answer is whole. */
  onGone(fn: () => void): void;
}

export function makeExchange(req: IncomingMessage, res: ServerResponse, manners: Manners = UVICORN): Exchange {
  const [path = "/", query = ""] = (req.url ?? "/").split("?");
  const head = (status: number, headers: OutgoingHttpHeaders): ServerResponse => {
    // What these servers do not say, and Node would.
    res.removeHeader("connection");
    const closes = manners.closesAfter?.(status) === true;
    const life = closes
      ? { connection: "close" }
      : manners.keepAlive === undefined
        ? {}
        : { "keep-alive": manners.keepAlive };
    return res.writeHead(status, { ...manners.headers, ...life, ...headers });
  };
  let body: Promise<string> | undefined;
  const text = (): Promise<string> => (body ??= readBody(req));
  return {
    method: req.method ?? "GET",
    path,
    query: new URLSearchParams(query),
    header: (name) => [req.headers[name]].flat()[0],
    text,
    json: async () => JSON.parse(await text()) as unknown,
    sendJson(status, value) {
      const bytes = Buffer.from(JSON.stringify(value));
      head(status, { "content-type": manners.json, "content-length": bytes.length }).end(bytes);
    },
    sendText(status, words, type) {
      const bytes = Buffer.from(words);
      const headers = type === undefined ? {} : { "content-type": type };
      head(status, { ...headers, "content-length": bytes.length }).end(bytes);
    },
    openStream() {
      head(200, { ...manners.streamHeaders, "content-type": manners.stream }).flushHeaders();
    },
    event: (data, name) => void res.write(`${name === undefined ? "" : `event: ${name}\n`}data: ${data}\n\n`),
    end() {
      if (manners.dropsAfterStream === true) res.end(() => req.socket.end());
      else res.end();
    },
    // What was written goes out first: a destroyed socket forgets it.
    cut: () => void setImmediate(() => res.destroy()),
    onGone(fn) {
      res.on("close", () => {
        if (!res.writableFinished) fn();
      });
    },
  };
}

async function readBody(req: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of req as AsyncIterable<Buffer>) {
    size += part.length;
    if (size > MOST_BYTES) throw new RangeError(`a body over ${MOST_BYTES} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts).toString("utf8");
}
