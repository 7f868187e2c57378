import type { IncomingMessage } from "node:http";
import { readBody } from "../http/body.ts";
import type { Endpoint } from "./endpoints.ts";
import { type ReadRequest, read } from "./read.ts";

/**
 * Read a request's body off its connection, and what it says.
 * @param target path and query, as far as they can be read
 * @throws CgnError REQUEST_TOO_LARGE, REQUEST_INVALID, CALLER_LEFT
 */
export function readRequest(
  endpoint: Endpoint,
  from: IncomingMessage,
  target: string | undefined,
  limitBytes: number,
): Promise<ReadRequest> {
  return readBody(from, limitBytes).then((body) => {
    const at = target?.indexOf("?") ?? -1;
    return read(endpoint, body, from.headers["content-type"], at < 0 ? "" : target!.slice(at + 1));
  });
}
