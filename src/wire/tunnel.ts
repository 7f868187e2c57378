import { request as plainRequest } from "node:http";
import { request as secureRequest } from "node:https";
import { createServer, type Socket } from "node:net";
import type { WireTls } from "./tls.ts";

export interface TunnelOptions {
  /** Unix socket here. */
  readonly path: string;
  /** Where an agent lets a connection through. */
  readonly url: string;
  readonly tls: WireTls;
}

/** Says where a tunnel leads: `CONNECT` has no place for a path. */
export const TUNNEL_HEADER = "x-cgn-tunnel";

/** An agent that does not answer is left after so long; whoever connected tries again. */
const OPEN_MS = 5_000;

/**
 * Listen on a Unix socket and lead each connection through an agent's port, by HTTP's `CONNECT`. A connection that cannot be led on is
 * cut; nothing is thrown.
 */
export function openTunnel({ path, url, tls }: TunnelOptions): { close(): void } {
  const sockets = new Set<Socket>();
  const server = createServer({ pauseOnConnect: true }, (socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    lead(socket, url, tls);
  });
  server.on("error", () => {});
  server.listen(path);
  return {
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

function lead(socket: Socket, url: string, tls: WireTls): void {
  const { protocol, hostname, port, pathname, search } = new URL(url);
  const isSecure = protocol === "https:";
  const asked = (isSecure ? secureRequest : plainRequest)({
    method: "CONNECT",
    host: hostname.replace(/^\[|\]$/g, ""),
    port: port === "" ? (isSecure ? 443 : 80) : port,
    path: "cgn:1",
    headers: { [TUNNEL_HEADER]: pathname + search },
    agent: false,
    timeout: OPEN_MS,
    ...(isSecure ? tls.clientOptions() : {}),
  });
  const end = (): void => {
    asked.destroy();
    socket.destroy();
  };
  socket.on("error", end).on("close", end);
  asked.on("error", end).on("timeout", end).on("response", end);
  asked.on("connect", (answer, through, head) => {
    through.on("error", end).on("close", end);
    if (answer.statusCode !== 200) return end();
    through.setTimeout(0);
    if (head.length > 0) socket.write(head);
    through.pipe(socket).pipe(through);
  });
  asked.end();
}
