import { isAscii } from "node:buffer";
import { ServerResponse } from "node:http";
import type { ClientResponse } from "./client-response.ts";

/** Larger pieces are not worth a copy. */
const MAX_FRAMED = 16 * 1024;

/**
 * Writes the body of one answer whose head was written. Node frames a chunk in four writes that it then joins; here it is one write of
 * one buffer, at half of the cost. What is not a body in chunks on its own connection goes Node's way.
 */
export class BodyWriter {
  readonly #res: ClientResponse;
  readonly #node: ServerResponse | undefined;
  /** The head goes with the first write, which is Node's. */
  #begun = false;

  constructor(res: ClientResponse) {
    this.#res = res;
    this.#node = res instanceof ServerResponse ? res : undefined;
  }

  /** @returns whether more is welcome; if not, see `whenDrained()` */
  write(bytes: Buffer): boolean {
    const res = this.#node;
    const socket = res?.socket ?? null;
    if (
      !this.#begun ||
      socket === null ||
      res?.chunkedEncoding !== true ||
      res.writableEnded ||
      bytes.length > MAX_FRAMED
    ) {
      this.#begun = true;
      return this.#res.write(bytes);
    }
    return bytes.length === 0 || socket.write(framed(bytes));
  }
}

/**
 * End an answer, of which nothing but perhaps the head was written, with its whole body. Node keeps a head and a body of bytes apart and writes them as a
 * list; a text in the head's encoding it joins with the head.
 * @returns the body as text, where it was made and is no other in UTF-8
 */
export function endWhole(res: ClientResponse, body: Buffer): string | undefined {
  if (!(res instanceof ServerResponse) || body.length > MAX_FRAMED) {
    res.end(body);
    return undefined;
  }
  const text = body.toString("latin1");
  res.end(text, "latin1");
  return isAscii(body) ? text : undefined;
}

/** Call back when more of a body is welcome, once; never where the connection ends before. */
export function whenDrained(res: ClientResponse, then: () => void): void {
  if (res instanceof ServerResponse && res.socket !== null) res.socket.once("drain", then);
  else res.once("drain", then);
}

/** A chunk of a chunked body (RFC 9112 section 7.1). */
function framed(bytes: Buffer): Buffer {
  const size = `${bytes.length.toString(16)}\r\n`;
  const frame = Buffer.allocUnsafe(size.length + bytes.length + 2);
  frame.write(size, 0, "latin1");
  bytes.copy(frame, size.length);
  frame[frame.length - 2] = 13;
  frame[frame.length - 1] = 10;
  return frame;
}
