import { isUtf8 } from "node:buffer";
import { CgnError } from "../core/errors.ts";
import { rootKey } from "../core/prefix-knowledge.ts";
import { isObject } from "./answer.ts";
import type { AwayRequest } from "./away.ts";
import type { Endpoint, EndpointKind } from "./endpoints.ts";
import type { LegConversion } from "./leg-requests.ts";
import { type Member, NotAnObject } from "./member-scanner.ts";
import { findFormModel } from "./read-form.ts";
import { PARSE_BYTES, readLarge } from "./read-large.ts";

/** A request whose body was read. The bytes stay as they came; `json` is what they say. */
export interface ReadRequest {
  readonly kind: EndpointKind;
  /** Undefined only where the endpoint may go without one. */
  readonly model: string | undefined;
  readonly body: Buffer;
  /** The model that the body names, where it is asked of another one. */
  readonly bodyModel?: string;
  readonly json: Readonly<Record<string, unknown>> | undefined;
  /** The client asked for a stream. */
  readonly stream: boolean;
  /** Prompts under different roots share nothing (`cache_salt`). */
  readonly root: string;
  /** False: the engine computes the whole prompt, whatever it has cached. */
  readonly readsCache: boolean;
  /** Where the members of a large body are. */
  readonly members?: readonly Member[];
  /** Path and query for the engine, where they are not the client's. */
  readonly target?: string;
  /** It was made of a request of another API, and its answer must be made into one. */
  readonly convert?: LegConversion;
  /** Where a form's `model` stands in the body. */
  readonly formModel?: { readonly start: number; readonly end: number };
  /** Why a large body was not built: `json` has only what the router must know, and the prompt is not matched. */
  readonly unmatched?: string;
  /** Its body is with another thread: `body` is empty here, and of `json` there is only what names an adapter. */
  readonly away?: AwayRequest;
}

const NEEDS_JSON: ReadonlySet<EndpointKind> = new Set(["chat", "completion", "messages", "responses", "embedding"]);

const SHOULD_BE = "Send a JSON object in UTF-8, not compressed";

function invalid(is: string, should: string, param?: string): CgnError {
  const details = param === undefined ? {} : { param };
  return new CgnError("REQUEST_INVALID", `Cannot read the request: ${is}. ${should}`, details) as CgnError;
}

/**
 * Read what the router must know of a body. A promise only for a large one, which is read in steps.
 *
 * @param query the target's query text, where `model` may stand for requests without a body
 * @throws CgnError REQUEST_INVALID: not JSON, not an object, no `model` where one is needed
 */
export function read(
  endpoint: Endpoint,
  body: Buffer,
  contentType: string | undefined,
  query: string,
): ReadRequest | Promise<ReadRequest> {
  const { kind } = endpoint;
  const needsJson = NEEDS_JSON.has(kind);
  const base = { kind, body, stream: false, root: "", json: undefined, readsCache: true } as const;
  if (!needsJson && body.length === 0) {
    return { ...base, model: new URLSearchParams(query).get("model") ?? undefined };
  }
  if (!needsJson && !mayBeObject(body)) {
    const form = contentType === undefined ? undefined : findFormModel(body, contentType);
    return form === undefined ? { ...base, model: undefined } : { ...base, model: form.model, formModel: form };
  }
  if (!isUtf8(body)) {
    if (needsJson) throw invalid("the body is not UTF-8", SHOULD_BE);
    return { ...base, model: undefined };
  }
  if (body.length > PARSE_BYTES) {
    return readLarge(body).then(
      ({ json, members, unmatched }) => ({
        ...requestOf(kind, body, json, needsJson),
        members,
        ...(unmatched === undefined ? {} : { unmatched }),
      }),
      (e: unknown) => {
        if (!(e instanceof NotAnObject || e instanceof SyntaxError)) throw e;
        if (needsJson) throw e instanceof SyntaxError ? notJson(e) : invalid(e.message, e.should ?? SHOULD_BE);
        return { ...base, model: undefined };
      },
    );
  }
  const json = parseObject(body, needsJson);
  return json === undefined ? { ...base, model: undefined } : requestOf(kind, body, json, needsJson);
}

/**
 * Could some reader take these bytes for a JSON object, in UTF-8, 16 or 32, with a byte order mark or without? Then they
 * must be read here too, or may not go to an engine that must not get all members (trait `stripKvTransferParams`).
 */
export function mayBeObject(body: Buffer): boolean {
  let at = 0;
  while (at < body.length && BEFORE_OBJECT.has(body[at]!)) at++;
  return body[at] === 0x7b;
}

/** Blanks, bytes of byte order marks, and zeros of wide characters. */
const BEFORE_OBJECT: ReadonlySet<number> = new Set([0x20, 0x09, 0x0a, 0x0d, 0x00, 0xef, 0xbb, 0xbf, 0xfe, 0xff]);

function requestOf(
  kind: EndpointKind,
  body: Buffer,
  json: Readonly<Record<string, unknown>>,
  needsModel: boolean,
): ReadRequest {
  const { model, cache_salt: salt } = json;
  if (needsModel && model === undefined)
    throw invalid('it has no "model"', "Name one; GET /v1/models lists them", "model");
  if (model !== undefined && (typeof model !== "string" || model === "")) {
    const is = typeof model === "object" && model !== null ? "no text" : JSON.stringify(model);
    throw invalid(`"model" is ${is}`, "It must be a name, as GET /v1/models lists them", "model");
  }
  return {
    kind,
    model,
    body,
    json,
    stream: json["stream"] === true,
    root: typeof salt === "string" ? rootKey("", salt) : "",
    readsCache: readsCache(json),
  };
}

/**
 * Does the engine look in its cache for this request? Not when it must give log probabilities of the prompt (vLLM and SGLang
 * then compute all of it), nor with llama.cpp's `cache_prompt: false`. Such a request fills the cache all the same.
 */
function readsCache(json: Readonly<Record<string, unknown>>): boolean {
  const { prompt_logprobs: ofPrompt, echo, logprobs, cache_prompt: cachePrompt } = json;
  const asked = (v: unknown): boolean => v !== undefined && v !== null && v !== false;
  return !asked(ofPrompt) && !(echo === true && asked(logprobs)) && cachePrompt !== false;
}

function notJson(e: Error): CgnError {
  // The parser quotes the text around the fault; the client may see its own words.
  return invalid(`the body is not JSON (${e.message})`, SHOULD_BE);
}

/** @returns undefined for a body that is no JSON object where that is allowed */
function parseObject(body: Buffer, needed: boolean): Readonly<Record<string, unknown>> | undefined {
  let json: unknown;
  try {
    json = JSON.parse(body.toString("utf8"));
  } catch (e) {
    if (!needed) return undefined;
    throw notJson(e as Error);
  }
  if (isObject(json)) return json;
  if (!needed) return undefined;
  throw invalid("the body is JSON, but no object", 'Send an object, for example {"model": "…", "messages": […]}');
}
