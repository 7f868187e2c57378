import type { Socket } from "node:net";
import type { SecureContextOptions } from "node:tls";
import { buildConnector, type Dispatcher, Pool } from "undici";
import { Http1Pool } from "./http1-pool.ts";
import { skipContinue } from "./skip-continue.ts";
import { readFailure, type UpstreamFailure } from "./upstream-failure.ts";

export interface UpstreamRequest {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  /** Name, value, name, value, …; without `host` and `content-length`. */
  readonly headers: readonly string[];
  readonly body: Uint8Array | undefined;
  /** Longest silence before the answer's head. Default: the pools' own. */
  readonly headersTimeoutMs?: number;
  /** Longest silence within it. 0 for either: the caller keeps the time himself. */
  readonly idleTimeoutMs?: number;
  /** On a connection of its own, which is closed after it. */
  readonly fresh?: boolean;
}

/** What happens to one request, in order: `onHead`, `onData` …, then exactly one of `onEnd` and `onFailure`. */
export interface UpstreamHandler {
  onHead(status: number, headers: Readonly<Record<string, string | string[] | undefined>>): void;
  /** False asks for a pause, until `resume()`. */
  onData(chunk: Buffer): boolean;
  onEnd(): void;
  onFailure(failure: UpstreamFailure): void;
}

export interface UpstreamCall {
  /** Cut it at once; nothing is called afterwards. Harmless when it is over. */
  abort(): void;
  resume(): void;
}

export interface UpstreamTimeouts {
  readonly connectMs: number;
  /** From the request's last byte to the answer's head: a non-streaming answer comes whole after its last token. */
  readonly headersMs: number;
  /** Longest silence within an answer. */
  readonly idleMs: number;
}

export const DEFAULT_TIMEOUTS: UpstreamTimeouts = { connectMs: 5_000, headersMs: 600_000, idleMs: 600_000 };

/**
 * Connection pools, one a base URL (which may have a path). One that is forgotten loses its connections, and what runs on them fails.
 * Engines in clear text are asked by a client of our own, at half of what undici costs; TLS goes by undici.
 */
export class Upstreams {
  readonly #timeouts: UpstreamTimeouts;
  readonly #plain = new Map<string, Http1Pool>();
  readonly #pools = new Map<string, BasePool>();
  readonly #connect: buildConnector.connector;

  /** @param tls for `https:`, asked at each new connection */
  constructor(timeouts: UpstreamTimeouts = DEFAULT_TIMEOUTS, tls?: () => SecureContextOptions) {
    this.#timeouts = timeouts;
    // A request a connection, so HTTP/2 would be of no use.
    const fixed = { timeout: timeouts.connectMs, allowH2: false };
    const plain = buildConnector(fixed);
    this.#connect = (options, done) => {
      const secure = tls !== undefined && options.protocol === "https:";
      const connect = secure ? buildConnector({ ...fixed, ...tls() } as buildConnector.BuildOptions) : plain;
      connect(options, (...[error, socket]) => {
        if (socket === null || error !== null) done(error ?? new Error("no connection"), null);
        else done(null, skipContinue(socket as Socket) as typeof socket);
      });
    };
  }

  /** Send a request. Never throws and never calls the handler before it returns. @param base URL; its path comes before the request's */
  send(base: string, request: UpstreamRequest, handler: UpstreamHandler): UpstreamCall {
    const plain = this.#plain.get(base) ?? (base.startsWith("http:") ? this.#openPlain(base) : undefined);
    if (plain !== undefined) return plain.send(request, handler);
    const exchange = new Exchange(handler);
    const { pool, prefix } = this.#pool(base);
    const options: Dispatcher.DispatchOptions = {
      method: request.method as Dispatcher.HttpMethod,
      path: prefix === "" ? request.path : prefix + request.path,
      headers: request.headers as string[],
      body: (request.body ?? null) as Buffer | null,
      reset: request.fresh === true,
      headersTimeout: request.headersTimeoutMs ?? null,
      bodyTimeout: request.idleTimeoutMs ?? null,
    };
    try {
      pool.dispatch(options, exchange);
    } catch (e) {
      queueMicrotask(() => exchange.fail(e));
    }
    return exchange;
  }

  /** Drop the connections of a base URL; requests that run there fail with `reset`. */
  forget(base: string): void {
    this.#plain.get(base)?.close();
    this.#plain.delete(base);
    const found = this.#pools.get(base);
    this.#pools.delete(base);
    found?.pool.destroy(null).catch(() => {});
  }

  async close(): Promise<void> {
    const pools = [...this.#pools.values()];
    this.#pools.clear();
    for (const pool of this.#plain.values()) pool.close();
    this.#plain.clear();
    await Promise.all(pools.map(({ pool }) => pool.destroy(null)));
  }

  /** @throws TypeError for what is no URL, as undici's pools do */
  #openPlain(base: string): Http1Pool {
    const pool = new Http1Pool(new URL(base), this.#timeouts);
    this.#plain.set(base, pool);
    return pool;
  }

  #pool(base: string): BasePool {
    let found = this.#pools.get(base);
    if (found === undefined) {
      const { origin, pathname } = new URL(base);
      // One request a connection: an answer may take minutes, and none may wait behind another.
      const pool = new Pool(origin, {
        connections: null,
        pipelining: 1,
        headersTimeout: this.#timeouts.headersMs,
        bodyTimeout: this.#timeouts.idleMs,
        connect: this.#connect,
        allowH2: false,
        maxHeaderSize: 64 * 1024,
      });
      found = { pool, prefix: pathname.replace(/\/$/, "") };
      this.#pools.set(base, found);
    }
    return found;
  }
}

/** Connections to an origin, and what stands before each request's path there. */
interface BasePool {
  readonly pool: Pool;
  readonly prefix: string;
}

/** One request on its way: undici's handler inside, ours outside. */
class Exchange implements Dispatcher.DispatchHandler, UpstreamCall {
  readonly #handler: UpstreamHandler;
  #controller: Dispatcher.DispatchController | undefined;
  #phase: UpstreamFailure["phase"] = "connect";
  #over = false;

  constructor(handler: UpstreamHandler) {
    this.#handler = handler;
  }

  abort(): void {
    if (this.#over) return;
    this.#over = true;
    this.#controller?.abort(new Error("the client left"));
  }

  resume(): void {
    if (!this.#over) this.#controller?.resume();
  }

  fail(e: unknown): void {
    if (this.#over) return;
    this.#over = true;
    this.#handler.onFailure(readFailure(e, this.#phase));
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    this.#phase = "head";
    // Aborted while it waited for a connection.
    if (this.#over) controller.abort(new Error("the client left"));
  }

  onResponseStart(
    _c: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    if (this.#over || status < 200) return;
    this.#phase = "body";
    this.#handler.onHead(status, headers);
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (!this.#over && !this.#handler.onData(chunk)) controller.pause();
  }

  onResponseEnd(): void {
    if (this.#over) return;
    this.#over = true;
    try {
      this.#handler.onEnd();
    } catch (e) {
      // An answer that cannot be passed on; undici would tell of it, and nobody would hear it any more.
      this.#handler.onFailure(readFailure(e, "body"));
    }
  }

  onResponseError(_controller: Dispatcher.DispatchController, e: Error): void {
    this.fail(e);
  }
}
