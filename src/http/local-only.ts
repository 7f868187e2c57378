import type { IncomingMessage } from "node:http";
import { CgnError } from "../core/errors.ts";

/**
 * A page in the operator's browser may have a name that resolves to this host (DNS rebinding): the browser then takes us for
 * the page's own server, and sends that name. Who means us says `localhost` or an address.
 * @throws CgnError HOST_REFUSED
 */
export function requireLocalHost(req: IncomingMessage, path: string): void {
  const host = req.headers.host ?? "";
  const name = host.replace(/:\d*$/, "").toLowerCase();
  if (name === "localhost" || name === "[::1]" || /^127(?:\.\d{1,3}){3}$/.test(name)) return;
  const is = host === "" ? "it has no Host header" : `it was sent to "${host}"`;
  const message = `Cannot serve ${path}: ${is}. Use http://127.0.0.1 or http://localhost with the admin port`;
  throw new CgnError("HOST_REFUSED", message, { host });
}

/** Does the connection come from this host by loopback? What a request says of itself (`Host`) proves nothing there. */
export function isFromLoopback({ socket }: Pick<IncomingMessage, "socket">): boolean {
  const from = (socket.remoteAddress ?? "").replace(/^::ffff:/i, "");
  return from === "::1" || from.startsWith("127.");
}

/**
 * Is the request from a page that this very server served? A browser names the page's origin itself; another page cannot say ours.
 * Whoever relies on it must know that the `Host` is ours too: by `requireLocalHost()`, or by a key.
 */
export function isOwnPage(req: IncomingMessage): boolean {
  const { origin, host } = req.headers;
  const site = req.headers["sec-fetch-site"];
  if (origin === undefined || host === undefined || (site !== undefined && site !== "same-origin")) return false;
  return origin === `http://${host}` || origin === `https://${host}`;
}

/**
 * What changes something takes POST, and not from a web page.
 * @throws CgnError METHOD_NOT_ALLOWED, UNAUTHENTICATED
 */
export function requireLocalPost(req: IncomingMessage, path: string, instead: string): void {
  if (req.method !== "POST") {
    throw new CgnError("METHOD_NOT_ALLOWED", `Cannot ${req.method} ${path}: it takes POST only`, { path });
  }
  if (req.headers.origin !== undefined) {
    throw new CgnError("UNAUTHENTICATED", `Cannot POST ${path}: the request comes from a web page. Use ${instead}`, {});
  }
}
