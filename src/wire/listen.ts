import { chmod, mkdir, unlink } from "node:fs/promises";
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createHttp2Server, type Http2ServerRequest, type Http2ServerResponse } from "node:http2";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { dirname } from "node:path";
import type { Duplex } from "node:stream";
import { createServer as createTlsServer, type TLSSocket } from "node:tls";
import { type ConnectRouter, createConnectRouter, createContextValues } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { CgnError } from "../core/errors.ts";
import { MAX_CALL_BYTES, MAX_NOTES_BYTES } from "./kv-limits.ts";
import type { TlsServerOptions, WireTls } from "./tls.ts";
import { peerOf, WIRE_PEER } from "./wire-peer.ts";

export type WireRequest = IncomingMessage | Http2ServerRequest;
export type WireResponse = ServerResponse | Http2ServerResponse;

/** Where to serve; at least one of the two. */
export interface WireListen {
  readonly routes: (router: ConnectRouter) => void;
  /** Path of a Unix socket; made with mode 0600. */
  readonly uds?: string;
  /** Port 0 takes a free one. */
  readonly tcp?: { readonly host: string; readonly port: number };
  /** With a certificate in it, TCP is TLS only. The Unix socket stays in clear text: its file's mode guards it. */
  readonly tls?: WireTls | undefined;
  /** Plain HTTP routes beside the RPCs; false: not one of them. */
  readonly http?: (req: WireRequest, res: WireResponse) => boolean;
  /** `CONNECT`: the connection is to lead elsewhere; false: not understood, it is cut. */
  readonly tunnel?: (req: IncomingMessage, socket: Duplex, head: Buffer) => boolean;
}

export interface WireServer {
  /** The TCP port that is listened on. */
  readonly port: number | undefined;
  close(): Promise<void>;
}

/** A peer that is gone without a word is found after about two minutes. */
const KEEP_ALIVE_MS = 30_000;
const HTTP2_PREFACE = Buffer.from("PRI * HTTP/2.0");

/**
 * Serve Connect routes on a Unix socket and on TCP at once. HTTP/1.1 and HTTP/2 share each of them (by prior knowledge, in TLS
 * by ALPN), so gRPC, Connect and JSON by curl all work. A socket file that nobody listens on any more is removed.
 * @throws CgnError PORT_IN_USE, STORAGE_UNUSABLE
 */
export async function listenWire(options: WireListen): Promise<WireServer> {
  const handlerOf = (readMaxBytes: number) =>
    // Zeros are answers too: scripts that read the JSON find every field.
    connectNodeAdapter({
      routes: options.routes,
      readMaxBytes,
      jsonOptions: { alwaysEmitImplicit: true },
      fallback: nothingThere(options.routes),
      contextValues: (req) => createContextValues().set(WIRE_PEER, peerOf(req.socket)),
    });
  const calls = handlerOf(MAX_CALL_BYTES);
  const notes = handlerOf(MAX_NOTES_BYTES);
  const answer = (req: WireRequest, res: WireResponse) => {
    if (options.http?.(req, res) !== true) (carriesNotes(req) ? notes : calls)(req, res);
  };
  const http1 = createHttpServer(answer);
  http1.on("connect", (req, socket, head) => {
    if (options.tunnel?.(req, socket, head) !== true) socket.destroy();
  });
  const http2 = createHttp2Server(answer);
  const sockets = new Set<Socket>();
  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.setKeepAlive(true, KEEP_ALIVE_MS);
    socket.once("close", () => sockets.delete(socket));
    // A peer that resets is no event for anyone.
    socket.on("error", () => socket.destroy());
  };
  const accept = (socket: Socket) => {
    keep(socket);
    socket.once("readable", () => sniff(socket, http1, http2));
  };
  const secure = (socket: TLSSocket) => {
    keep(socket);
    (socket.alpnProtocol === "h2" ? http2 : http1).emit("connection", socket);
  };
  const servers: Server[] = [];
  let endReload = () => {};
  const close = async () => {
    endReload();
    for (const socket of sockets) socket.destroy();
    await Promise.all(servers.map((server) => new Promise<void>((done) => server.close(() => done()))));
  };
  let port: number | undefined;
  try {
    if (options.uds !== undefined) servers.push(await listenUnix(options.uds, accept));
    if (options.tcp !== undefined) {
      const material = options.tls?.serverOptions();
      const server = material === undefined ? createServer(accept) : tlsServer(material, secure, options.tls);
      if (options.tls !== undefined && material !== undefined) endReload = reloading(options.tls, server);
      await listening(
        server,
        { host: options.tcp.host, port: options.tcp.port },
        `${options.tcp.host}:${options.tcp.port}`,
      );
      servers.push(server);
      port = (server.address() as AddressInfo).port;
    }
  } catch (error) {
    await close();
    throw error;
  }
  return { port, close };
}

type Fallback = NonNullable<Parameters<typeof connectNodeAdapter>[0]["fallback"]>;

/** Answers a path that is no call of this port, with those that are; the code is Connect's word for it. */
function nothingThere(routes: WireListen["routes"]): Fallback {
  const router = createConnectRouter();
  routes(router);
  const calls = router.handlers.map(({ requestPath }) => requestPath).join(", ");
  return ({ url = "/" }, res) => {
    const path = url.split("?", 1)[0]!.slice(0, 200);
    const message = `Cannot find ${path}: this port has no such path. It has ${calls}, each by POST`;
    res.writeHead(404, { "content-type": "application/json" });
    res.end(JSON.stringify({ code: "unimplemented", message }));
  };
}

/** In JSON such a body would take seconds to read. */
function carriesNotes({ url, headers }: WireRequest): boolean {
  return url === "/cgn.kv.v1.PrefixIndex/Observe" && !/json/i.test(headers["content-type"] ?? "");
}

function tlsServer(material: TlsServerOptions, secure: (socket: TLSSocket) => void, tls: WireTls | undefined): Server {
  const { required, ...context } = material;
  const server = createTlsServer(
    { ...context, rejectUnauthorized: required, ALPNProtocols: ["h2", "http/1.1"] },
    (socket) => {
      // No certificate is an answer where none is required; a wrong one never is.
      const shown = context.requestCert && Object.keys(socket.getPeerCertificate()).length > 0;
      if (shown && !socket.authorized) {
        tls?.refused(String(socket.authorizationError), socket.remoteAddress);
        socket.destroy();
      } else secure(socket);
    },
  );
  // Who speaks no TLS, or cannot prove himself, is cut.
  server.on("tlsClientError", (error: NodeJS.ErrnoException, socket) => {
    // One that only looks whether the port is open is no news.
    const why = socket.authorizationError ?? (error.code === "ECONNRESET" ? undefined : error.message);
    if (why !== undefined && why !== null) tls?.refused(String(why), socket.remoteAddress);
    socket.destroy();
  });
  return server;
}

function reloading(tls: WireTls, server: Server): () => void {
  return tls.onChange(() => {
    const material = tls.serverOptions();
    if (material !== undefined && "setSecureContext" in server) {
      (server as ReturnType<typeof createTlsServer>).setSecureContext(material);
    }
  });
}

/** Hand a connection to the server of its protocol, told by its first bytes. */
function sniff(
  socket: Socket,
  http1: ReturnType<typeof createHttpServer>,
  http2: ReturnType<typeof createHttp2Server>,
): void {
  const first: Buffer | null = socket.read();
  if (first === null) {
    socket.destroy();
    return;
  }
  socket.unshift(first);
  // A preface cut by a packet boundary counts as one: no HTTP/1 method starts with "PRI".
  const isHttp2 = first.subarray(0, 3).equals(HTTP2_PREFACE.subarray(0, 3));
  (isHttp2 ? http2 : http1).emit("connection", socket);
}

async function listenUnix(path: string, accept: (socket: Socket) => void): Promise<Server> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 }).catch((cause) => {
    throw new CgnError(
      "STORAGE_UNUSABLE",
      `Cannot make folder ${dirname(path)}: ${said(cause)}. Choose another socket path`,
      { path },
      { cause },
    );
  });
  if (await answers(path)) {
    throw new CgnError(
      "PORT_IN_USE",
      `Cannot listen on ${path}: another process does. Stop it, or choose another socket path`,
      { path },
    );
  }
  await unlink(path).catch(() => {});
  const server = createServer(accept);
  // Made closed: between bind and chmod nobody else may connect.
  const mask = process.umask(0o177);
  const ready = listening(server, { path }, path);
  process.umask(mask);
  await ready;
  await chmod(path, 0o600);
  return server;
}

/** Does anyone accept connections on this socket file? */
function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ path });
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}

function listening(
  server: Server,
  where: { host?: string; port?: number; path?: string },
  name: string,
): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (cause: NodeJS.ErrnoException) => {
      const inUse = cause.code === "EADDRINUSE";
      const is = inUse ? "the address is in use" : said(cause);
      const message = `Cannot listen on ${name}: ${is}. Choose another address, or stop what uses it`;
      reject(new CgnError(inUse ? "PORT_IN_USE" : "STORAGE_UNUSABLE", message, { address: name }, { cause }));
    });
    server.listen(where, () => resolve());
  });
}

function said(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}
