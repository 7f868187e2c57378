import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import { type Dispatcher, Pool } from "undici";

// What Node costs without any routing, for bench/proxy.ts: `node proxy-bare.ts PORT URL…`. Engines in turn, the body parsed once, headers
// of one hop left out, whole answers in one write. No retries, limits, metrics or prompts.

const [port, ...urls] = process.argv.slice(2);
const pools = urls.map((url) => new Pool(url, { connections: null, pipelining: 1, headersTimeout: 0, bodyTimeout: 0 }));
const HOP = new Set(["connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "host", "expect"]);

function kept(headers: IncomingHttpHeaders, without: string): Record<string, string | string[]> {
  const out: Record<string, string | string[]> = {};
  for (const name in headers) {
    const value = headers[name];
    if (value !== undefined && name !== without && !HOP.has(name)) out[name] = value;
  }
  return out;
}

class Answer implements Dispatcher.DispatchHandler {
  readonly #res: ServerResponse;
  #controller: Dispatcher.DispatchController | undefined;
  #whole: Buffer[] | undefined;

  constructor(res: ServerResponse) {
    this.#res = res;
    res.on("close", () => {
      if (!res.writableFinished) this.#controller?.abort(new Error("the client left"));
    });
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
  }

  onResponseStart(_c: Dispatcher.DispatchController, status: number, headers: IncomingHttpHeaders): void {
    this.#res.writeHead(status, kept(headers, ""));
    if (headers["content-length"] !== undefined) this.#whole = [];
    else this.#res.flushHeaders();
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#whole !== undefined) this.#whole.push(chunk);
    else if (!this.#res.write(chunk)) {
      controller.pause();
      this.#res.once("drain", () => controller.resume());
    }
  }

  onResponseEnd(): void {
    this.#res.end(this.#whole === undefined ? undefined : Buffer.concat(this.#whole));
  }

  onResponseError(): void {
    if (!this.#res.headersSent) this.#res.writeHead(502);
    this.#res.end();
  }
}

let turn = 0;
createServer((req, res) => {
  const chunks: Buffer[] = [];
  req.on("data", (chunk: Buffer) => chunks.push(chunk));
  req.on("end", () => {
    const body = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
    if (body.length > 0) JSON.parse(body.toString("utf8"));
    const method = req.method as Dispatcher.HttpMethod;
    const headers = kept(req.headers, "content-length");
    pools[turn++ % pools.length]!.dispatch({ path: req.url ?? "/", method, headers, body }, new Answer(res));
  });
}).listen(Number(port), "127.0.0.1", 1024);
