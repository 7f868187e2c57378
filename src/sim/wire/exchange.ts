import type { IncomingMessage, ServerResponse } from "node:http";

/** The largest body that is read; engines have no limit worth naming. */
const MOST_BYTES = 64 * 1024 * 1024;

/** One HTTP request and its answer, with what the handlers need of them. */
export interface Exchange {
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly query: URLSearchParams;
  header(name: string): string | undefined;
  /** The body as JSON. @throws SyntaxError when it is none */
  json(): Promise<unknown>;
  sendJson(status: number, body: object): void;
  sendText(status: number, text: string, type?: string): void;
  /** Begin an event stream; headers go out at once. */
  openStream(): void;
  /** One `data:` line of the stream. */
  event(data: string): void;
  end(): void;
  /** Break the connection in the middle. */
  cut(): void;
  /** Called once if the client leaves before the answer is whole. */
  onGone(fn: () => void): void;
}

export function makeExchange(req: IncomingMessage, res: ServerResponse): Exchange {
  const [path = "/", query = ""] = (req.url ?? "/").split("?");
  return {
    method: req.method ?? "GET",
    path,
    query: new URLSearchParams(query),
    header: (name) => [req.headers[name]].flat()[0],
    json: async () => JSON.parse(await readBody(req)) as unknown,
    sendJson(status, body) {
      const text = Buffer.from(JSON.stringify(body));
      res.writeHead(status, { "content-type": "application/json", "content-length": text.length }).end(text);
    },
    sendText(status, text, type) {
      const bytes = Buffer.from(text);
      const headers = type === undefined ? {} : { "content-type": type };
      res.writeHead(status, { ...headers, "content-length": bytes.length }).end(bytes);
    },
    openStream() {
      res.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" }).flushHeaders();
    },
    event: (data) => void res.write(`data: ${data}\n\n`),
    end: () => void res.end(),
    cut: () => void res.destroy(),
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
