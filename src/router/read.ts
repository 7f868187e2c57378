import { CgnError } from "../core/errors.ts";
import { rootKey } from "../core/prefix-knowledge.ts";
import { isObject } from "./answer.ts";
import type { Endpoint, EndpointKind } from "./endpoints.ts";

/** A request whose body was read. The bytes stay as they came; `json` is what they say. */
export interface ReadRequest {
  readonly kind: EndpointKind;
  /** Undefined only where the endpoint may go without one. */
  readonly model: string | undefined;
  readonly body: Buffer;
  readonly json: Readonly<Record<string, unknown>> | undefined;
  /** The client asked for a stream. */
  readonly stream: boolean;
  /** Prompts under different roots share nothing (`cache_salt`). */
  readonly root: string;
}

function invalid(is: string, should: string, param?: string): CgnError {
  const details = param === undefined ? {} : { param };
  return new CgnError("REQUEST_INVALID", `Cannot read the request: ${is}. ${should}`, details) as CgnError;
}

/**
 * Read what the router must know of a body.
 *
 * @param query the target's query text, where `model` may stand for requests without a body
 * @throws CgnError REQUEST_INVALID: not JSON, not an object, no `model` where one is needed
 */
export function read(endpoint: Endpoint, body: Buffer, contentType: string | undefined, query: string): ReadRequest {
  const { kind } = endpoint;
  const needsJson = kind === "chat" || kind === "completion" || kind === "embedding";
  const base = { kind, body, stream: false, root: "" } as const;
  if (!needsJson && body.length === 0) {
    return { ...base, model: new URLSearchParams(query).get("model") ?? undefined, json: undefined };
  }
  if (!needsJson && contentType?.startsWith("multipart/form-data")) {
    return { ...base, model: multipartModel(body), json: undefined };
  }
  const json = parseObject(body, needsJson);
  if (json === undefined) return { ...base, model: undefined, json };
  const { model, cache_salt: salt } = json;
  if (needsJson && model === undefined)
    throw invalid('it has no "model"', "Name one; GET /v1/models lists them", "model");
  if (model !== undefined && (typeof model !== "string" || model === "")) {
    throw invalid(`"model" is ${JSON.stringify(model)}`, "It must be a name, as GET /v1/models lists them", "model");
  }
  return {
    kind,
    model,
    body,
    json,
    stream: json["stream"] === true,
    root: typeof salt === "string" ? rootKey("", salt) : "",
  };
}

/** @returns undefined for a body that is no JSON object where that is allowed */
function parseObject(body: Buffer, needed: boolean): Readonly<Record<string, unknown>> | undefined {
  let json: unknown;
  try {
    json = JSON.parse(body.toString("utf8"));
  } catch (e) {
    if (!needed) return undefined;
    // The parser quotes the text around the fault; the client may see its own words.
    throw invalid(`the body is not JSON (${(e as Error).message})`, "Send a JSON object, not compressed");
  }
  if (isObject(json)) return json;
  if (!needed) return undefined;
  throw invalid("the body is JSON, but no object", 'Send an object, for example {"model": "…", "messages": […]}');
}

/** The `model` field of a form (audio endpoints). Looked for in the first and last 64 KiB: the rest is the file. */
function multipartModel(body: Buffer): string | undefined {
  const window = 64 * 1024;
  const ends = [body.subarray(0, window), body.subarray(Math.max(0, body.length - window))];
  for (const part of ends) {
    const found = /name="model"[^\r\n]*\r\n(?:[^\r\n]+\r\n)*\r\n([^\r\n]{1,256})\r\n--/.exec(part.toString("latin1"));
    if (found?.[1] !== undefined) return Buffer.from(found[1], "latin1").toString("utf8");
  }
  return undefined;
}
