import { type CgnError, CODES, type Code } from "../core/errors.ts";
import type { ClientResponse } from "./client-response.ts";

/** OpenAI's error shape, with who spoke: an engine's own errors pass unchanged and have no `src`. */
export interface ErrorBody {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly code: string;
    readonly param: string | null;
  };
  readonly src: "cgn";
}

/** OpenAI's word for the kind of an error, which SDKs branch on beside the status. */
function errorType(status: number): string {
  if (status === 401) return "authentication_error";
  if (status === 403) return "permission_error";
  if (status === 429) return "rate_limit_error";
  return status < 500 ? "invalid_request_error" : "server_error";
}

/** The body for an error; `details.param` names the member of the request that is at fault, where one is. */
export function errorBody(error: CgnError): ErrorBody {
  const code: Code = error.code;
  const param = "param" in error.details ? error.details.param : undefined;
  return {
    error: {
      message: error.message,
      type: errorType(CODES[code].http),
      code: code.toLowerCase(),
      param: typeof param === "string" ? param : null,
    },
    src: "cgn",
  };
}

/** Seconds after which to try again, where the error says so. */
function retryAfter(error: CgnError): string | undefined {
  const seconds = "retryAfterS" in error.details ? error.details.retryAfterS : undefined;
  return typeof seconds === "number" ? String(Math.max(1, Math.ceil(seconds))) : undefined;
}

/**
 * Answer with an error and its true status. Does nothing when the answer has begun: an error in a stream is the relay's.
 *
 * @param headers sent beside `content-type` and `retry-after`
 * @param body in another form than OpenAI's
 */
export function sendError(
  res: ClientResponse,
  error: CgnError,
  headers: Readonly<Record<string, string>> = {},
  body: object = errorBody(error),
): void {
  if (res.headersSent || res.destroyed) return;
  const again = retryAfter(error);
  sendJson(res, CODES[error.code as Code].http, body, {
    ...headers,
    ...(again === undefined ? {} : { "retry-after": again }),
  });
}

/** Answer with JSON in one write. */
export function sendJson(
  res: ClientResponse,
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): void {
  const bytes = Buffer.from(JSON.stringify(body));
  res.writeHead(status, { ...headers, "content-type": "application/json", "content-length": bytes.length });
  res.end(bytes);
}
