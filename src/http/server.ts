import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { CgnError, toCgnError } from "../core/errors.ts";
import { errorBody, sendError } from "./error-body.ts";

export interface HttpServerOptions {
  /** For messages: `router`, `admin`. */
  readonly name: string;
  readonly listen: { readonly host: string; readonly port: number };
  /** What it throws, or rejects with, is answered as an error body (500 for a bug). */
  handle(req: IncomingMessage, res: ServerResponse): void | Promise<void>;
  /** How long a client may take for its headers. Default 15 s. */
  readonly headersTimeoutMs?: number;
  /** How long for headers and body together. Default 300 s. */
  readonly requestTimeoutMs?: number;
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
 * Listen for HTTP/1.1.
 * @throws CgnError PORT_IN_USE, or BAD_INVOCATION for an address that this host does not have or may not bind
 */
export async function startHttpServer(options: HttpServerOptions): Promise<HttpServer> {
  let leaving = false;
  const handle = (req: IncomingMessage, res: ServerResponse): void => {
    if (leaving) res.setHeader("connection", "close");
    try {
      const pending = options.handle(req, res);
      if (pending !== undefined) pending.catch((e: unknown) => fail(res, e));
    } catch (e) {
      fail(res, e);
    }
  };
  const server = createServer({
    headersTimeout: options.headersTimeoutMs ?? 15_000,
    requestTimeout: options.requestTimeoutMs ?? 300_000,
    // Above the idle time of usual load balancers (60 s), so that they close first.
    keepAliveTimeout: 75_000,
    connectionsCheckingInterval: 5_000,
    maxHeaderSize: 64 * 1024,
  });
  server.on("request", handle);
  server.on("checkContinue", (req, res) => {
    res.setHeader("connection", "close");
    if (options.refuse?.(req, res) === true) return;
    res.removeHeader("connection");
    res.writeContinue();
    handle(req, res);
  });
  server.on("clientError", answerBrokenRequest);
  const sockets = new Set<Socket>();
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  await listen(server, options);
  return {
    address: boundAddress(server),
    connections: () => sockets.size,
    lameDuck: () => void (leaving = true),
    close(graceMs) {
      leaving = true;
      return closeServer(server, sockets, graceMs);
    },
  };
}

function fail(res: ServerResponse, e: unknown): void {
  if (res.headersSent) res.destroy();
  else sendError(res, toCgnError(e));
}

function listen(server: Server, { name, listen: { host, port } }: HttpServerOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (e: NodeJS.ErrnoException) => reject(listenError(e, name, `${host}:${port}`)));
    server.listen({ host, port, backlog: 1024 }, () => {
      server.removeAllListeners("error");
      resolve();
    });
  });
}

function listenError(e: NodeJS.ErrnoException, name: string, at: string): CgnError {
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

/** Malformed HTTP never reaches a handler; answer it in the same shape as all other errors. */
function answerBrokenRequest(e: NodeJS.ErrnoException, socket: NodeJS.WritableStream & { writable: boolean }): void {
  if (e.code === "ECONNRESET" || !socket.writable) return;
  const late = e.code === "ERR_HTTP_REQUEST_TIMEOUT";
  const status = late
    ? "408 Request Timeout"
    : e.code === "HPE_HEADER_OVERFLOW"
      ? "431 Request Header Fields Too Large"
      : "400 Bad Request";
  const message = late
    ? "Cannot read the request: it did not arrive in time"
    : "Cannot read the request: it is no valid HTTP/1.1";
  const body = JSON.stringify(errorBody(new CgnError("REQUEST_INVALID", message, {}) as CgnError));
  socket.end(
    `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
  );
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
