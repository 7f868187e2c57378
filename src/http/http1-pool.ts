import type { AnswerHeaders } from "./answer-parser.ts";
import { type ConnectionUser, type Http1Address, Http1Connection } from "./http1-connection.ts";
import type { UpstreamCall, UpstreamHandler, UpstreamRequest, UpstreamTimeouts } from "./upstream.ts";
import { readFailure, type UpstreamFailure } from "./upstream-failure.ts";

const SWEEP_MS = 1_000;
/** What neither a header's value nor a target may hold. */
const NOT_IN_VALUE = /[^\t\x20-\x7e\x80-\xff]/;
const NOT_IN_TARGET = /[^\x21-\xff]/;
const HAS_BODY: ReadonlySet<string> = new Set(["POST", "PUT", "PATCH"]);

/** Connections to one engine in clear text: as many as there are requests under way, used again newest first. */
export class Http1Pool {
  readonly #address: Http1Address;
  readonly #hostLine: string;
  /** What stands before each request's path. */
  readonly #prefix: string;
  readonly #timeouts: UpstreamTimeouts;
  readonly #all = new Set<Http1Connection>();
  /** Oldest first. */
  readonly #idle: Http1Connection[] = [];
  #sweep: NodeJS.Timeout | undefined;

  constructor(url: URL, timeouts: UpstreamTimeouts) {
    const { hostname } = url;
    const host = hostname.startsWith("[") ? hostname.slice(1, -1) : hostname;
    this.#address = { host, port: url.port === "" ? 80 : Number(url.port) };
    this.#hostLine = `host: ${url.host}\r\n`;
    this.#prefix = url.pathname.replace(/\/$/, "");
    this.#timeouts = timeouts;
  }

  /** Never throws and never calls the handler before it returns. */
  send(request: UpstreamRequest, handler: UpstreamHandler): UpstreamCall {
    const call = new Http1Call(handler, request, this.#timeouts);
    let head: string;
    try {
      head = this.#headOf(request);
    } catch (e) {
      queueMicrotask(() => call.onFailure(readFailure(e, "connect")));
      return call;
    }
    const connection = (request.fresh === true ? undefined : this.#take()) ?? this.#open();
    call.on(connection);
    const body = request.body === undefined || request.body.length === 0 ? undefined : request.body;
    connection.send(call, head, body, request.method === "HEAD");
    return call;
  }

  /** Cut all connections; what runs there fails with `reset`. */
  close(): void {
    clearInterval(this.#sweep);
    this.#sweep = undefined;
    for (const connection of this.#all) connection.lose();
  }

  #take(): Http1Connection | undefined {
    const nowMs = performance.now();
    for (let last = this.#idle.pop(); last !== undefined; last = this.#idle.pop()) {
      if (last.usable && last.idleUntilMs > nowMs) return last;
      last.cut();
    }
    return undefined;
  }

  #open(): Http1Connection {
    const connection = new Http1Connection(
      this.#address,
      this.#timeouts.connectMs,
      (idle) => this.#keep(idle),
      (closed) => this.#drop(closed),
    );
    this.#all.add(connection);
    return connection;
  }

  #keep(connection: Http1Connection): void {
    this.#idle.push(connection);
    if (this.#sweep !== undefined) return;
    this.#sweep = setInterval(() => this.#cutIdle(), SWEEP_MS);
    this.#sweep.unref();
  }

  #drop(connection: Http1Connection): void {
    this.#all.delete(connection);
    const at = this.#idle.indexOf(connection);
    if (at >= 0) this.#idle.splice(at, 1);
  }

  #cutIdle(): void {
    const nowMs = performance.now();
    for (const connection of this.#idle.filter(({ idleUntilMs }) => idleUntilMs <= nowMs)) {
      this.#idle.splice(this.#idle.indexOf(connection), 1);
      connection.cut();
    }
    if (this.#idle.length > 0) return;
    clearInterval(this.#sweep);
    this.#sweep = undefined;
  }

  /** @throws TypeError for what HTTP cannot carry */
  #headOf({ method, path, headers, body, fresh }: UpstreamRequest): string {
    if (NOT_IN_TARGET.test(path)) throw new TypeError("its target has characters that none may have");
    let head = `${method} ${this.#prefix}${path} HTTP/1.1\r\n${this.#hostLine}connection: ${fresh === true ? "close" : "keep-alive"}\r\n`;
    for (let i = 0; i < headers.length; i += 2) {
      const value = headers[i + 1]!;
      if (NOT_IN_VALUE.test(value)) throw new TypeError(`header ${headers[i]} has characters that none may have`);
      head += `${headers[i]}: ${value}\r\n`;
    }
    const bytes = body?.length ?? 0;
    return bytes > 0 || HAS_BODY.has(method) ? `${head}content-length: ${bytes}\r\n\r\n` : `${head}\r\n`;
  }
}

/** One request on its way. */
class Http1Call implements UpstreamCall, ConnectionUser {
  readonly #handler: UpstreamHandler;
  readonly #idleMs: number;
  #connection: Http1Connection | undefined;
  #timer: NodeJS.Timeout | undefined;
  #phase: "head" | "body" = "head";
  #over = false;

  constructor(handler: UpstreamHandler, request: UpstreamRequest, timeouts: UpstreamTimeouts) {
    this.#handler = handler;
    this.#idleMs = request.idleTimeoutMs ?? timeouts.idleMs;
    this.#arm(request.headersTimeoutMs ?? timeouts.headersMs);
  }

  on(connection: Http1Connection): void {
    this.#connection = connection;
  }

  abort(): void {
    if (this.#over) return;
    const connection = this.#connection;
    this.#finish();
    connection?.cut();
  }

  resume(): void {
    this.#connection?.resume();
  }

  onHead(status: number, headers: AnswerHeaders): void {
    this.#phase = "body";
    this.#arm(this.#idleMs);
    this.#handler.onHead(status, headers);
  }

  onBody(bytes: Buffer): boolean {
    this.#timer?.refresh();
    return this.#handler.onData(bytes);
  }

  onAnswerEnd(): void {
    this.#finish();
    try {
      this.#handler.onEnd();
    } catch (e) {
      // An answer that cannot be passed on.
      this.#handler.onFailure(readFailure(e, "body"));
    }
  }

  onFailure(failure: UpstreamFailure): void {
    if (this.#over) return;
    this.#finish();
    this.#handler.onFailure(failure);
  }

  #arm(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = ms > 0 ? setTimeout(() => this.#late(ms), ms) : undefined;
  }

  #late(ms: number): void {
    const connection = this.#connection;
    this.onFailure({ kind: "timeout", phase: this.#phase, message: `not a byte for ${ms / 1000} s` });
    connection?.cut();
  }

  #finish(): void {
    this.#over = true;
    this.#connection = undefined;
    clearTimeout(this.#timer);
  }
}
