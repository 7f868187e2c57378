import { type CgnError, CODES, type Code } from "../core/errors.ts";
import { errorBody } from "../http/error-body.ts";
import type { Exchange } from "./accept.ts";
import { isObject } from "./answer.ts";
import type { ApiShape } from "./endpoints.ts";
import type { LegConversion } from "./leg-requests.ts";
import { isNamedPath, noSuchPath, saysMissing } from "./missing-path.ts";

/** Anthropic's word for the kind of an error, by status (its API reference, "Errors"). */
function anthropicType(status: number): string {
  const known: Readonly<Record<number, string>> = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
  };
  return known[status] ?? (status < 500 ? "invalid_request_error" : "api_error");
}

function anthropicBody(status: number, message: string, id: string, more: object = {}): object {
  return { type: "error", error: { type: anthropicType(status), message, ...more }, request_id: id };
}

/**
 * The body of an error of the router's own, as the clients of an API expect it.
 * @param id of the request
 */
export function apiErrorBody(error: CgnError, shape: ApiShape, id: string): object {
  const body = errorBody(error);
  if (shape !== "anthropic") return body;
  const { message, code } = body.error;
  return { ...anthropicBody(CODES[error.code as Code].http, message, id, { code }), src: "cgn" };
}

/**
 * The same as the last event of a stream that has begun. OpenAI's clients look for `error` in the data; those of Anthropic and of
 * Responses for an event of that name too.
 */
export function apiErrorEvent(body: object, shape: ApiShape): Buffer {
  if (shape === "openai") return Buffer.from(`data: ${JSON.stringify(body)}\n\n`);
  return Buffer.from(`event: error\ndata: ${JSON.stringify(shape === "responses" ? responsesEvent(body) : body)}\n\n`);
}

/** `ResponseErrorEvent` (code, message, param), and `error` beside it, which SDKs make their exception of. */
function responsesEvent(body: object): object {
  const error = "error" in body && isObject(body.error) ? body.error : {};
  const { code = null, message = "", param = null } = error;
  return { type: "error", code: code === null ? null : String(code), message, param, sequence_number: 0, ...body };
}

/** What an engine said of a request that it refused, whatever its form (vLLM, SGLang, llama-server, MLX, FastAPI). */
export function engineErrorText(said: unknown): string | undefined {
  if (!isObject(said)) return undefined;
  const { error, message, detail } = said;
  if (typeof error === "string") return error;
  if (isObject(error) && typeof error["message"] === "string") return error["message"];
  if (typeof message === "string") return message;
  if (detail === undefined) return undefined;
  return typeof detail === "string" ? detail : JSON.stringify(detail);
}

/**
 * An engine's refusal in Anthropic's form. llama-server answers `/v1/messages` with errors in OpenAI's; clients then know the status
 * only.
 * @returns undefined for a body that has the form already
 */
export function anthropicFromEngine(status: number, body: Buffer, id: string): Buffer | undefined {
  const text = body.toString("utf8");
  let said: unknown;
  try {
    said = JSON.parse(text);
  } catch {
    said = undefined;
  }
  if (isObject(said) && said["type"] === "error" && isObject(said["error"])) return undefined;
  const message = engineErrorText(said) ?? (text.slice(0, 2_000) || `The engine answered ${status}`);
  return Buffer.from(JSON.stringify(anthropicBody(status, message, id)));
}

/**
 * What must be done to an engine's whole answer before a client can read it: a converted answer back into the client's API, errors into
 * its form.
 * @returns undefined: nothing, whatever comes
 */
export function rewriter(
  { shape, id, path }: Pick<Exchange, "shape" | "id" | "path">,
  convert: LegConversion | undefined,
): ((status: number, body: Buffer) => Buffer | undefined) | undefined {
  if (convert === undefined && shape !== "anthropic") return isNamedPath(path) ? undefined : missingRewriter(path);
  return (status, body) => {
    if (status >= 400) return shape === "anthropic" ? anthropicFromEngine(status, body, id) : undefined;
    if (convert === undefined) return undefined;
    let chat: unknown;
    try {
      chat = JSON.parse(body.toString("utf8"));
    } catch {
      return undefined;
    }
    return isObject(chat) ? Buffer.from(JSON.stringify(convert.by.whole(chat, convert.asked))) : undefined;
  };
}

/** What engines say of a path that they have not differs, and tells nobody what there is. */
function missingRewriter(path: string): (status: number, body: Buffer) => Buffer | undefined {
  return (status, body) => {
    if (!saysMissing(status, body)) return undefined;
    return Buffer.from(JSON.stringify(errorBody(noSuchPath(path, "the model's engine has no such path"))));
  };
}
