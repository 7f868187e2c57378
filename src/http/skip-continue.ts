import type { Socket } from "node:net";

const CONTINUE = Buffer.from("HTTP/1.1 100");
const HEAD_END = Buffer.from("\r\n\r\n");

/** Without `100 Continue` answers at its beginning. One whose head is not complete stays. */
export function withoutContinue(bytes: Buffer): Buffer {
  let rest = bytes;
  while (rest.length >= CONTINUE.length && rest[9] === 0x31 && CONTINUE.equals(rest.subarray(0, CONTINUE.length))) {
    const end = rest.indexOf(HEAD_END);
    if (end < 0) return rest;
    rest = rest.subarray(end + HEAD_END.length);
  }
  return rest;
}

/**
 * Drop `100 Continue` that comes in front of an answer although nobody asked for it (RFC 9110 section 15.2 wants that
 * understood). undici 8 takes it for a broken answer. Looks only at what comes first after something was written.
 */
export function skipContinue(socket: Socket): Socket {
  const read = socket.read.bind(socket);
  const write = socket.write.bind(socket) as (...args: unknown[]) => boolean;
  let first = true;
  socket.write = ((...args: unknown[]) => {
    first = true;
    return write(...args);
  }) as Socket["write"];
  socket.read = (size?: number): unknown => {
    for (;;) {
      const chunk: unknown = read(size);
      if (!first || !Buffer.isBuffer(chunk)) return chunk;
      const rest = withoutContinue(chunk);
      if (rest.length === 0) continue;
      first = false;
      return rest;
    }
  };
  return socket;
}
