import { CgnError } from "../core/errors.ts";
import { MAX_CALL_BYTES, MAX_PROMPT_TOKENS } from "./kv-limits.ts";
import type { WireRequest } from "./listen.ts";

/** The body of a call beside the RPCs. @throws CgnError REQUEST_TOO_LARGE beyond `MAX_CALL_BYTES` */
export async function readCallBody(req: WireRequest): Promise<Buffer> {
  const parts: Buffer[] = [];
  let size = 0;
  if (Number(req.headers["content-length"] ?? 0) > MAX_CALL_BYTES) throw tooLarge();
  for await (const part of req as AsyncIterable<Buffer>) {
    size += part.length;
    if (size > MAX_CALL_BYTES) throw tooLarge();
    parts.push(part);
  }
  return Buffer.concat(parts);
}

function tooLarge(): CgnError {
  const message = `Cannot read the query: it is larger than ${MAX_CALL_BYTES} bytes. Send at most ${MAX_PROMPT_TOKENS} token ids`;
  return new CgnError("REQUEST_TOO_LARGE", message, {}) as CgnError;
}
