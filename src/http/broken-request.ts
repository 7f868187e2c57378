import type { Duplex } from "node:stream";
import { CgnError } from "../core/errors.ts";
import { errorBody } from "./error-body.ts";

/** So long a client has to take the answer before its connection is cut: its own bytes are no longer read. */
const FAREWELL_MS = 500;

/**
 * Answer on the bare connection, and cut it soon after: what never became a request, or no request that is served here. A
 * connection that was only half closed would stay for as long as its client drips bytes.
 */
export function answerAndCut(socket: Duplex, status: string, message: string): void {
  if (socket.destroyed) return;
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const body = JSON.stringify(errorBody(new CgnError("REQUEST_INVALID", message, {}) as CgnError));
  const length = Buffer.byteLength(body);
  socket.on("error", () => {});
  socket.end(
    `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\nconnection: close\r\n\r\n${body}`,
  );
  const cut = setTimeout(() => socket.destroy(), FAREWELL_MS);
  socket.once("close", () => clearTimeout(cut));
}

/** Malformed or late HTTP never reaches a handler; answer it in the same shape as all other errors. */
export function answerBrokenRequest(e: NodeJS.ErrnoException, socket: Duplex): void {
  if (e.code === "ECONNRESET") {
    socket.destroy();
  } else if (e.code === "ERR_HTTP_REQUEST_TIMEOUT") {
    answerAndCut(socket, "408 Request Timeout", "Cannot read the request: it did not arrive in time");
  } else if (e.code === "HPE_HEADER_OVERFLOW") {
    answerAndCut(socket, "431 Request Header Fields Too Large", "Cannot read the request: its headers are too large");
  } else {
    answerAndCut(socket, "400 Bad Request", "Cannot read the request: it is no valid HTTP/1.1");
  }
}
