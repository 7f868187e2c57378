import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer, type Server as TlsServer } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { SecureContextOptions, TLSSocket } from "node:tls";
import { CgnError, toCgnError } from "../core/errors.ts";
import { answerAndCut, answerBrokenRequest } from "./broken-request.ts";
import { errorBody, sendError, sendJson } from "./error-body.ts";
import { cutStalledClients } from "./stalled-clients.ts";

/** Certificates of a server, as they are now. `requestCert`: clients are asked for one; `required`: and refused without. */
export interface HttpTls {
  /** Undefined: there is none, it speaks clear text. */
  serverOptions(): (SecureContextOptions & { readonly requestCert: boolean; readonly required: boolean }) | undefined;
  onChange(listener: () => void): () => void;
  /** A connection was refused because the other side did not prove itself. */
  refused?(why: string, from: string | undefined): void;
}

export interface HttpServerOptions {
  /** For messages: `router`, `admin`. */
  readonly name: string;
  readonly listen: { readonly host: string; readonly port: number };
  /** Others of this process listen on the same port, and the system shares out connections among them. */
  readonly shared?: boolean;
  /** With a certificate in it, only TLS is spoken. */
  readonly tls?: HttpTls | undefined;
  /** What it throws, or rejects with, is answered as an error body (500 for a bug). */
  handle(req: IncomingMessage, res: ServerResponse): void | Promise<void>;
  /** How long a client may take for its headers. Default 15 s. */
  readonly headersTimeoutMs?: number;
  /** How long for headers and body together. Default 300 s. */
  readonly requestTimeoutMs?: number;
  /** Connections that have not sent a whole head yet; the oldest is cut for one more. Default 4096. */
  readonly maxWaiting?: number;
  /** A client that takes nothing of what is sent to it for so long is cut; 0: never. Default 300 s. */
  readonly stalledClientMs?: number;
  /** Answers what can be refused by its head, before `100 Continue`; true when it did. The connection is closed then. */
  refuse?(req: IncomingMessage, res: ServerResponse): boolean;
}

export interface HttpServer {
  /** Where it listens; the port is the real one when 0 was asked for. */
  readonly address: { readonly host: string; readonly port: number };
  connections(): number;
  /** From now on each answer ends its connection, so that clients move on. */
  lameDuck(): void;
  /** Stop listening, let open requests end within `graceMs`, then cut what is left. */
  close(graceMs: number): Promise<void>;
}

/**
 * Listen for HTTP/1.1, over TLS where there is a certificate.
 * @throws CgnError PORT_IN_USE, or BAD_INVOCATION for an address that this host does not have or may not bind
 */
export async function startHttpServer(options: HttpServerOptions): Promise<HttpServer> {
  let leaving = false;
  const waiting = new WaitingSockets(options.maxWaiting ?? 4_096);
  const handle = (req: IncomingMessage, res: ServerResponse): void => {
    waiting.answering(req.socket, res);
    if (leaving) res.setHeader("connection", "close");
    if (req.headers.host === undefined && req.httpVersion === "1.1") {
      refuseHead(res, 400, "it has no Host header");
      return;
    }
    try {
      const pending = options.handle(req, res);
      if (pending !== undefined) pending.catch((e: unknown) => fail(res, e));
    } catch (e) {
      fail(res, e);
    }
  };
  const secrets = options.tls?.serverOptions();
  const settings = {
    headersTimeout: options.headersTimeoutMs ?? 15_000,
    requestTimeout: options.requestTimeoutMs ?? 300_000,
    // Above the idle time of usual load balancers (60 s), so that they close first.
    keepAliveTimeout: 75_000,
    connectionsCheckingInterval: Math.min(5_000, Math.ceil((options.headersTimeoutMs ?? 15_000) / 3)),
    maxHeaderSize: 64 * 1024,
    // Checked here: Node's own answer has no body.
    requireHostHeader: false,
  };
  const server = secrets === undefined ? createServer(settings) : tlsServer(secrets, settings, options);
  const leaveTls = options.tls?.onChange(() => renew(server, options.tls)) ?? (() => {});
  server.on("request", handle);
  server.on("checkExpectation", (_req, res) => refuseHead(res, 417, "it expects something other than 100-continue"));
  server.on("connect", (_req, socket) => {
    answerAndCut(socket, "405 Method Not Allowed", "Cannot CONNECT: this server is no tunnel");
  });
  server.on("checkContinue", (req, res) => {
    res.setHeader("connection", "close");
    if (options.refuse?.(req, res) === true) return;
    res.removeHeader("connection");
    res.writeContinue();
    handle(req, res);
  });
  server.on("clientError", (e, socket) => {
    const answer = waiting.answerOn(socket);
    if (answer === undefined) answerBrokenRequest(e, socket);
    else if (answer.req.complete) answerAfter(answer, e, socket);
    // In the midst of an answer to this very request another one would be read as part of it.
    else if (answer.headersSent) socket.destroy();
    else answerBrokenRequest(e, socket);
  });
  const sockets = new Set<Socket>();
  // What is written in TLS waits in another object than the bare socket.
  const tlsSockets = new Set<Socket>();
  server.on("connection", (socket) => {
    sockets.add(socket);
    // In TLS its handshake has a time limit of its own, and requests come on another object.
    if (secrets === undefined) waiting.add(socket);
    socket.on("close", () => {
      sockets.delete(socket);
      waiting.delete(socket);
    });
  });
  server.on("secureConnection", (socket: TLSSocket) => {
    // No certificate is an answer where none is required; a wrong one never is.
    const shown = secrets?.requestCert === true && Object.keys(socket.getPeerCertificate()).length > 0;
    if (shown && !socket.authorized) {
      options.tls?.refused?.(String(socket.authorizationError), socket.remoteAddress);
      socket.destroy();
    }
    waiting.add(socket);
    tlsSockets.add(socket);
    socket.on("close", () => {
      waiting.delete(socket);
      tlsSockets.delete(socket);
    });
  });
  const taking = secrets === undefined ? sockets : tlsSockets;
  await listen(server, options);
  const stopCutting = cutStalledClients(taking, options.stalledClientMs ?? 300_000);
  return {
    address: boundAddress(server),
    connections: () => sockets.size,
    lameDuck: () => void (leaving = true),
    close(graceMs) {
      leaving = true;
      leaveTls();
      return closeServer(server, sockets, graceMs).finally(stopCutting);
    },
  };
}

function tlsServer(
  { required, ...context }: NonNullable<ReturnType<HttpTls["serverOptions"]>>,
  settings: object,
  { headersTimeoutMs = 15_000, tls }: Pick<HttpServerOptions, "headersTimeoutMs" | "tls">,
): TlsServer {
  const server = createTlsServer({
    ...settings,
    ...context,
    rejectUnauthorized: required,
    handshakeTimeout: headersTimeoutMs,
    ALPNProtocols: ["http/1.1"],
  });
  // Who speaks no TLS, or cannot prove himself, is cut.
  server.on("tlsClientError", (error: NodeJS.ErrnoException, socket) => {
    // One that only looks whether the port is open is no news.
    const { authorizationError, remoteAddress } = socket as TLSSocket;
    const why = authorizationError ?? (error.code === "ECONNRESET" ? undefined : error.message);
    if (why !== undefined && why !== null) tls?.refused?.(String(why), remoteAddress);
    socket.destroy();
  });
  return server;
}

/** New connections get the certificate as it is now. */
function renew(server: Server | TlsServer, tls: HttpTls | undefined): void {
  const secrets = tls?.serverOptions();
  if (secrets !== undefined && "setSecureContext" in server) server.setSecureContext(secrets);
}

function fail(res: ServerResponse, e: unknown): void {
  if (res.headersSent) res.destroy();
  else sendError(res, toCgnError(e));
}

function listen(server: Server, { name, shared = false, listen: { host, port } }: HttpServerOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (e: NodeJS.ErrnoException) => reject(listenError(e, name, `${host}:${port}`)));
    server.listen({ host, port, backlog: 1024, ...(shared ? { reusePort: true } : {}) }, () => {
      server.removeAllListeners("error");
      resolve();
    });
  });
}

/** Why nobody can listen at an address. */
export function listenError(e: NodeJS.ErrnoException, name: string, at: string): CgnError {
  if (e.code === "EADDRINUSE") {
    const message = `Cannot listen on ${at} (${name}): the port is in use. Stop what listens there, or choose another`;
    return new CgnError("PORT_IN_USE", message, { address: at }, { cause: e }) as CgnError;
  }
  const why =
    e.code === "EACCES" ? "not permitted" : e.code === "EADDRNOTAVAIL" ? "not an address of this host" : e.message;
  const message = `Cannot listen on ${at} (${name}): ${why}. Choose an address of this host and a port above 1023`;
  return new CgnError("BAD_INVOCATION", message, { address: at }, { cause: e }) as CgnError;
}

function boundAddress(server: Server): { host: string; port: number } {
  const { address, port } = server.address() as AddressInfo;
  return { host: address, port };
}

/** Answer what cannot be served because of its head, and close the connection. */
function refuseHead(res: ServerResponse, status: number, is: string): void {
  const error = new CgnError("REQUEST_INVALID", `Cannot serve the request: ${is}`, {}) as CgnError;
  sendJson(res, status, errorBody(error), { connection: "close" });
}

/** Connections without a whole head, oldest first, at most so many; and what is being answered on the others. */
class WaitingSockets {
  readonly #max: number;
  readonly #waiting = new Set<Duplex>();
  readonly #answers = new WeakMap<Duplex, ServerResponse>();

  constructor(max: number) {
    this.#max = max;
  }

  add(socket: Duplex): void {
    this.#waiting.add(socket);
    if (this.#waiting.size <= this.#max) return;
    for (const oldest of this.#waiting) {
      this.#waiting.delete(oldest);
      oldest.destroy();
      return;
    }
  }

  delete(socket: Duplex): void {
    this.#waiting.delete(socket);
  }

  answering(socket: Duplex, res: ServerResponse): void {
    this.#waiting.delete(socket);
    this.#answers.set(socket, res);
  }

  /** The last answer there that is not over. */
  answerOn(socket: Duplex): ServerResponse | undefined {
    const res = this.#answers.get(socket);
    return res?.writableFinished === false ? res : undefined;
  }
}

/** Answers that have what is no request behind them. */
const FOLLOWED = new WeakSet<ServerResponse>();

/** What came behind whole requests is none: those are answered first. */
function answerAfter(answer: ServerResponse, e: NodeJS.ErrnoException, socket: Duplex): void {
  if (e.code === "ECONNRESET") {
    socket.destroy();
    return;
  }
  if (FOLLOWED.has(answer)) return;
  FOLLOWED.add(answer);
  answer.once("close", () => {
    if (socket.writable) answerBrokenRequest(e, socket);
  });
}

function closeServer(server: Server, sockets: ReadonlySet<Socket>, graceMs: number): Promise<void> {
  return new Promise((resolve) => {
    const cut = setTimeout(() => {
      for (const socket of sockets) socket.destroy();
    }, graceMs);
    // Connections between two requests go at once; those that fall idle later close by `connection: close`.
    const sweep = setInterval(() => server.closeIdleConnections(), 50);
    server.close(() => {
      clearTimeout(cut);
      clearInterval(sweep);
      resolve();
    });
    server.closeIdleConnections();
  });
}
