import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { Code, ConnectError, type ContextKey, createContextKey } from "@connectrpc/connect";

/** Who is at the other end of a call. */
export interface WirePeer {
  /** It showed a certificate that is right, or is on this host (loopback, or a Unix socket). */
  readonly isProved: boolean;
}

/** Set for each call by `listenWire()`. Without it (calls within a process) everybody is believed. */
export const WIRE_PEER: ContextKey<WirePeer> = createContextKey<WirePeer>({ isProved: true });

/** Read it off the connection. */
export function peerOf(socket: Pick<Socket, "remoteAddress">): WirePeer {
  const from = socket.remoteAddress?.replace(/^::ffff:/i, "");
  // A Unix socket has none.
  const isHere = from === undefined || from === "::1" || from.startsWith("127.");
  return { isProved: isHere || (socket as Partial<TLSSocket>).authorized === true };
}

/** What an operator does takes a caller that has proved himself. @throws ConnectError permission_denied */
export function requireProved({ isProved }: WirePeer, verb: string): void {
  if (isProved) return;
  const message = `Cannot ${verb}: the caller has not proved himself. Ask on the agent's own host, or show a certificate ([security].client_ca_file)`;
  throw new ConnectError(message, Code.PermissionDenied);
}
