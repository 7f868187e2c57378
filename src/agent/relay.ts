import { type IncomingMessage, request as plainRequest } from "node:http";
import { request as secureRequest } from "node:https";
import { connect } from "node:net";
import type { Duplex } from "node:stream";
import type { SecureContextOptions } from "node:tls";
import { CgnError } from "../core/errors.ts";
import type { WorkerId } from "../core/ids.ts";
import type { Log } from "../core/log.ts";
import type { WorkerDirectory, WorkerInfo } from "../core/worker.ts";
import { parseTcpEndpoint } from "../engines/address.ts";
import { errorBody } from "../http/error-body.ts";
import { forwardRequestHeaders } from "../http/headers.ts";
import type { WireRequest, WireResponse } from "../wire/listen.ts";
import { TUNNEL_HEADER } from "../wire/tunnel.ts";
import { readRelayPath } from "./relay-path.ts";

export interface RelayOptions {
  /** The agent's engines, with `relay` where they may be reached. */
  readonly directory: WorkerDirectory;
  /** The key that an engine was started with: given to requests that come without one, for who gets here has proved himself. */
  readonly apiKey: (id: WorkerId) => string | undefined;
  /** For engines that speak TLS. */
  readonly tls: () => SecureContextOptions;
  readonly log: Log;
}

/** What of the relay is served beside the RPCs of the agent's port. */
export interface EngineRelays {
  http(req: WireRequest, res: WireResponse): boolean;
  tunnel(req: IncomingMessage, socket: Duplex, head: Buffer): boolean;
}

/** Not passed on from an engine's answer: they are of one connection. */
const HOP_BY_HOP = new Set(["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "te"]);

/**
 * Pass requests on to engines that listen on loopback, so that only the agent's port must be open: `PATH/v1/…` as it came, both ways,
 * with back-pressure. A client that leaves ends the engine's work; an engine that breaks off ends the client's connection in the same
 * place, so whoever asks sees what he would see at the engine itself.
 */
export function createRelay(options: RelayOptions): EngineRelays {
  return {
    http(req, res) {
      const asked = readRelayPath(req.url ?? "");
      if (asked === undefined) return false;
      const engine = find(options.directory, asked.id);
      if (engine === undefined) refuse(res, 503, `there is no such engine that it may reach: "${asked.id}"`);
      else if (req.httpVersionMajor === 2) refuse(res, 505, "it speaks HTTP/1.1 only. Ask so");
      else pass(req as IncomingMessage, res, engine, asked.rest, options);
      return true;
    },
    tunnel(req, socket, head) {
      // The target of CONNECT can be no path.
      const asked = readRelayPath(String(req.headers[TUNNEL_HEADER] ?? ""));
      const endpoint = asked === undefined ? null : new URLSearchParams(asked.rest.split("?")[1] ?? "").get("endpoint");
      const engine = asked === undefined ? undefined : find(options.directory, asked.id);
      if (engine === undefined || endpoint === null) return false;
      leadOn(socket, head, endpoint, options.directory, engine);
      return true;
    },
  };
}

/** By the id in the path: ranks of one engine have one path. */
function find(directory: WorkerDirectory, id: string): WorkerInfo | undefined {
  return directory.list().find((worker) => worker.relay !== undefined && idIn(worker.relay.path) === id);
}

const idIn = (path: string): string | undefined => readRelayPath(path)?.id;

function pass(req: IncomingMessage, res: WireResponse, engine: WorkerInfo, rest: string, o: RelayOptions): void {
  const target = new URL(engine.url);
  const isSecure = target.protocol === "https:";
  const headers = forwardRequestHeaders(req.rawHeaders, () => false);
  const length = req.headers["content-length"];
  if (length !== undefined) headers.push("content-length", length);
  else if (req.headers["transfer-encoding"] !== undefined) headers.push("transfer-encoding", "chunked");
  const key = req.headers.authorization === undefined ? o.apiKey(engine.id) : undefined;
  if (key !== undefined) headers.push("authorization", `Bearer ${key}`);
  headers.push("host", target.host);
  const up = (isSecure ? secureRequest : plainRequest)({
    host: target.hostname.replace(/^\[|\]$/g, ""),
    port: target.port === "" ? (isSecure ? 443 : 80) : target.port,
    method: req.method ?? "GET",
    path: target.pathname.replace(/\/$/, "") + rest,
    headers: headers as never,
    // A connection a request: on loopback that costs little, and none is found closed by the engine.
    agent: false,
    ...(isSecure ? o.tls() : {}),
  });
  up.on("response", (answer) => giveBack(answer, res as unknown as Answer));
  up.on("error", (error: NodeJS.ErrnoException) => {
    // After a whole answer it is no news, and the connection may have its next request.
    if (res.writableEnded) return;
    if (res.headersSent) res.destroy();
    else if (error.code === "ECONNREFUSED") refuse(res, 502, `nothing listens at ${engine.url}`);
    // Cut before any answer: told as it happened.
    else req.socket.destroy();
  });
  res.on("close", () => {
    if (!res.writableFinished) up.destroy();
  });
  req.on("error", () => up.destroy());
  req.pipe(up);
}

/** Of the two protocols' answers what is used here. */
type Answer = WireResponse & {
  writeHead(status: number, headers: Record<string, string | string[]>): unknown;
  flushHeaders(): void;
  useChunkedEncodingByDefault: boolean;
  shouldKeepAlive: boolean;
};

function giveBack(answer: IncomingMessage, res: Answer): void {
  const headers: Record<string, string | string[]> = {};
  for (const [name, value] of Object.entries(answer.headersDistinct)) {
    if (value !== undefined && !HOP_BY_HOP.has(name)) headers[name] = value.length === 1 ? value[0]! : value;
  }
  if (answer.headers["content-length"] === undefined && answer.headers["transfer-encoding"] === undefined) {
    // Its length is told by the connection's end: chunks would make a whole answer of one that was cut.
    res.useChunkedEncodingByDefault = false;
    res.shouldKeepAlive = false;
  }
  res.writeHead(answer.statusCode ?? 502, headers);
  res.flushHeaders();
  answer.on("error", () => res.destroy());
  answer.on("aborted", () => res.destroy());
  answer.pipe(res as unknown as NodeJS.WritableStream);
}

function refuse(res: WireResponse, status: number, is: string): void {
  const error = new CgnError("UPSTREAM_FAILED", `Cannot pass the request on to the engine: ${is}`, {}) as CgnError;
  const body = JSON.stringify(errorBody(error));
  (res as Answer).writeHead(status, { "content-type": "application/json", "content-length": String(body.length) });
  (res as Answer).end(body);
}

/** Only where an engine that is announced publishes: no port of this host is open to others by it. */
function leadOn(socket: Duplex, head: Buffer, endpoint: string, directory: WorkerDirectory, engine: WorkerInfo): void {
  const announced = directory
    .list()
    .filter(({ relay }) => relay?.path === engine.relay?.path)
    .flatMap(({ kv }) => (kv.type === "events" ? [kv.endpoint, kv.replay] : []));
  const at = announced.includes(endpoint) ? parseTcpEndpoint(endpoint) : undefined;
  if (at === undefined) {
    socket.end("HTTP/1.1 403 Forbidden\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
    return;
  }
  const up = connect({ host: at.host, port: at.port, noDelay: true });
  up.once("connect", () => {
    socket.write("HTTP/1.1 200 OK\r\n\r\n");
    if (head.length > 0) up.write(head);
    up.pipe(socket).pipe(up);
  });
  const end = (): void => {
    up.destroy();
    socket.destroy();
  };
  for (const each of [up, socket]) each.on("error", end).on("close", end);
}
