import type { SecureContextOptions } from "node:tls";
import { Agent, buildConnector, type Dispatcher } from "undici";
import type { Clock } from "../core/clock.ts";
import { CgnError } from "../core/errors.ts";

export interface EtcdClientOptions {
  /** `http://HOST:PORT` or `https://HOST:PORT` of each member. Any of them will do; without a scheme `http` is meant. */
  readonly endpoints: readonly string[];
  readonly clock: Clock;
  readonly user?: { readonly name: string; readonly password: string };
  /** For `https`: asked at each new connection. */
  readonly tls?: () => SecureContextOptions;
  /** Longest a member may take to answer. Default 2 s. */
  readonly timeoutMs?: number;
}

/** An answer, as etcd's JSON gateway writes it: 64-bit numbers are texts, bytes are base64, zeros are left out. */
export type EtcdReply = Readonly<Record<string, unknown>>;

/** Codes of gRPC by which another member may do better: it is cut off, has no leader, or is too slow. */
const ELSEWHERE = new Set([1, 2, 4, 8, 13, 14, 15]);
const UNAUTHENTICATED = 16;
const NOT_ENABLED = 9;
export const NOT_FOUND = 5;

/**
 * etcd 3.4 and newer by its own JSON gateway (`/v3/…`), with several members: the one that answered last is asked first, and one
 * that does not answer in time, or has no leader, is left for the next.
 */
export class EtcdClient {
  readonly #o: EtcdClientOptions;
  readonly #endpoints: readonly string[];
  readonly #dispatcher: Dispatcher;
  #at = 0;
  #token: string | undefined;
  #noAuth = false;

  constructor(options: EtcdClientOptions) {
    this.#o = options;
    this.#endpoints = options.endpoints.map((text) =>
      (/^https?:\/\//.test(text) ? text : `http://${text}`).replace(/\/+$/, ""),
    );
    const timeout = options.timeoutMs ?? 2_000;
    this.#dispatcher = new Agent({
      // A renewed certificate is used by the next connection.
      connect: (target, done) =>
        buildConnector({ timeout, ...options.tls?.() } as buildConnector.BuildOptions)(target, done),
      headersTimeout: 0,
      bodyTimeout: 0,
    });
  }

  /** The member that is asked now. */
  get endpoint(): string {
    return this.#endpoints[this.#at]!;
  }

  /**
   * Ask, of each member once at most.
   * @param path below `/v3/`, for example `kv/range`
   * @throws CgnError DEPENDENCY_UNREACHABLE; `details.grpc` is etcd's own code where it answered
   */
  async call(path: string, body: object): Promise<EtcdReply> {
    let last: CgnError | undefined;
    for (let tries = 0; tries < this.#endpoints.length; tries++) {
      try {
        return await this.#authorized(path, body);
      } catch (error) {
        last = error as CgnError;
        const { grpc } = last.details as { readonly grpc?: number };
        if (grpc !== undefined && !ELSEWHERE.has(grpc)) throw last;
        this.next();
      }
    }
    throw last!;
  }

  /** Leave this member for the next one. */
  next(): void {
    this.#at = (this.#at + 1) % this.#endpoints.length;
  }

  /**
   * Watch at the member of the moment, until `signal`. Ends, or throws as `call()` does, when the connection does.
   * @param request etcd's WatchCreateRequest
   */
  async *watch(request: object, signal: AbortSignal): AsyncGenerator<EtcdReply> {
    const { body, statusCode } = await this.#post("watch", { create_request: request }, signal);
    let rest = "";
    const decoder = new TextDecoder();
    for await (const chunk of body) {
      rest += decoder.decode(chunk as Uint8Array, { stream: true });
      for (let end = rest.indexOf("\n"); end >= 0; end = rest.indexOf("\n")) {
        const line = rest.slice(0, end);
        rest = rest.slice(end + 1);
        if (line.trim() !== "") yield this.#result(line, statusCode);
      }
    }
    if (statusCode !== 200) this.#result(rest, statusCode);
  }

  async close(): Promise<void> {
    await this.#dispatcher.destroy();
  }

  async #authorized(path: string, body: object): Promise<EtcdReply> {
    try {
      await this.#login();
      return await this.#ask(path, body);
    } catch (error) {
      // Tokens end, with a restart of etcd too.
      if (this.#token === undefined || !isBadToken(error)) throw error;
      this.#token = undefined;
      await this.#login();
      return await this.#ask(path, body);
    }
  }

  async #login(): Promise<void> {
    const { user } = this.#o;
    if (user === undefined || this.#token !== undefined || this.#noAuth) return;
    try {
      const { token } = await this.#ask("auth/authenticate", { name: user.name, password: user.password });
      this.#token = typeof token === "string" ? token : undefined;
    } catch (error) {
      const { grpc } = (error as CgnError).details as { readonly grpc?: number };
      if (grpc !== NOT_ENABLED) throw error;
      this.#noAuth = true;
    }
  }

  async #ask(path: string, body: object): Promise<EtcdReply> {
    const stop = new AbortController();
    // Comparing passwords takes etcd long, on purpose.
    const timeoutMs = (this.#o.timeoutMs ?? 2_000) * (path.startsWith("auth/") ? 3 : 1);
    const cancel = this.#o.clock.after(timeoutMs, () => stop.abort(new Error("it does not answer")));
    try {
      const { body: answer, statusCode } = await this.#post(path, body, stop.signal);
      const text = await answer.text().catch((cause: unknown) => {
        throw this.#unreachable(cause);
      });
      return this.#result(text.split("\n", 1)[0]!, statusCode);
    } finally {
      cancel();
    }
  }

  async #post(path: string, body: object, signal: AbortSignal): Promise<Dispatcher.ResponseData> {
    const headers = {
      "content-type": "application/json",
      ...(this.#token === undefined ? {} : { authorization: this.#token }),
    };
    const { origin, pathname } = new URL(`${this.endpoint}/v3/${path}`);
    try {
      return await this.#dispatcher.request({
        origin,
        path: pathname,
        method: "POST",
        headers,
        body: JSON.stringify(body),
        signal,
      });
    } catch (cause) {
      throw this.#unreachable(cause);
    }
  }

  #result(text: string, statusCode: number): EtcdReply {
    let parsed: unknown;
    try {
      parsed = JSON.parse(text);
    } catch {
      const said = text.trim().slice(0, 200);
      throw this.#unreachable(new Error(`HTTP ${statusCode}, and no JSON but "${said}"`));
    }
    const reply = parsed as {
      readonly result?: EtcdReply;
      readonly error?: unknown;
      readonly code?: number;
      message?: string;
    };
    if (reply.error !== undefined || statusCode !== 200) {
      const inner = typeof reply.error === "object" ? (reply.error as { grpc_code?: number; message?: string }) : {};
      const said = inner.message ?? reply.message ?? String(reply.error ?? `HTTP ${statusCode}`);
      throw this.#unreachable(new Error(said), inner.grpc_code ?? reply.code ?? 2);
    }
    return reply.result ?? (reply as EtcdReply);
  }

  #unreachable(cause: unknown, grpc?: number): CgnError {
    const why = cause instanceof Error ? (cause.message === "" ? cause.name : cause.message) : String(cause);
    const right = rightFor(why, this.#o.user !== undefined);
    const details = { endpoint: this.endpoint, why, ...(grpc === undefined ? {} : { grpc }) };
    return new CgnError("DEPENDENCY_UNREACHABLE", `Cannot use etcd at ${this.endpoint}: ${why}. ${right}`, details, {
      cause,
    }) as CgnError;
  }
}

function rightFor(why: string, hasUser: boolean): string {
  // Its gateway refuses that together with users, since it cannot take the name for the user's.
  if (why.includes("CommonName")) return "With users in etcd, show it a certificate without a common name, or none";
  if (why.includes("and no JSON")) return "Name endpoints of etcd 3.4 or newer, with its gRPC gateway enabled";
  if (/user name is empty|authentication failed|invalid user ID|permission denied/i.test(why)) {
    return hasUser
      ? "Check etcd_username, etcd_password and the rights of that user in etcd"
      : "It asks for a user: set etcd_username and etcd_password in [cluster]";
  }
  if (/certificate|self-signed|tls|ssl|EPROTO/i.test(why)) {
    return "Name the CA that proves it with [cluster].etcd_ca_file, and write https:// where it speaks TLS";
  }
  return "Start it, or correct [cluster].etcd_endpoints";
}

function isBadToken(error: unknown): boolean {
  const { grpc, why } = (error as CgnError).details as { readonly grpc?: number; readonly why?: string };
  return grpc === UNAUTHENTICATED || /invalid auth token|auth.*revision.*old/i.test(why ?? "");
}
