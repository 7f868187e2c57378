import type { IncomingMessage } from "node:http";
import { CgnError } from "../core/errors.ts";

const EMPTY = Buffer.alloc(0);

function tooLarge(is: string, limitBytes: number): CgnError {
  return new CgnError(
    "REQUEST_TOO_LARGE",
    `Cannot read the request body: ${is}. At most ${limitBytes} bytes are taken (router.max_body_bytes)`,
    { limitBytes },
  ) as CgnError;
}

/** The declared length, when it is above the limit: refuse before the first byte is read. */
export function declaredTooLarge(req: IncomingMessage, limitBytes: number): CgnError | undefined {
  const declared = Number(req.headers["content-length"] ?? 0);
  return declared > limitBytes ? tooLarge(`it has ${declared} bytes`, limitBytes) : undefined;
}

/**
 * Read a whole body, bounded.
 *
 * Slow senders are the server's business (`requestTimeout`). After an error the rest is not read: answer, then
 * `discardBody()`.
 *
 * @throws CgnError REQUEST_TOO_LARGE above the limit; CALLER_LEFT when the client goes away before its end
 */
export function readBody(req: IncomingMessage, limitBytes: number): Promise<Buffer> {
  const refused = declaredTooLarge(req, limitBytes);
  if (refused !== undefined) return Promise.reject(refused);
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const stop = (error: CgnError): void => {
      req.removeAllListeners("data");
      req.pause();
      reject(error);
    };
    req.on("data", (chunk: Buffer) => {
      size += chunk.length;
      if (size > limitBytes) return stop(tooLarge("it goes on beyond the limit", limitBytes));
      chunks.push(chunk);
    });
    req.on("end", () =>
      resolve(chunks.length === 1 ? chunks[0]! : chunks.length === 0 ? EMPTY : Buffer.concat(chunks)),
    );
    const gone = (): void => {
      if (!req.complete) stop(new CgnError("CALLER_LEFT", "Client went away while it sent its body", {}) as CgnError);
    };
    // `close` comes after any `error`, which Node tells only where somebody listens.
    req.on("close", gone);
  });
}

/** So much of a refused body is read on: 2 s of a fast network, some tenths of a second of this process. */
const DISCARD_BYTES = 256 * 1024 * 1024;
/** After the last byte that is read, so long a client has to read its answer. */
const LINGER_MS = 2_000;

/**
 * Read on and throw away, up to `limitBytes`, then cut. A client that is still sending would otherwise meet a reset, and
 * never see why its request was refused: many read nothing before they have sent all.
 *
 * Beyond the limit nothing more is read, and the connection ends on this side: whoever stops sending finds the answer there.
 */
export function discardBody(req: IncomingMessage, limitBytes: number = DISCARD_BYTES): void {
  let size = 0;
  req.on("data", (chunk: Buffer) => {
    const before = size;
    size += chunk.length;
    if (size <= limitBytes || before > limitBytes) return;
    req.pause();
    req.socket.end();
    setTimeout(() => req.destroy(), LINGER_MS).unref();
  });
  req.resume();
}
