import { CgnError } from "../core/errors.ts";
import type { Exchange } from "./accept.ts";
import { isObject } from "./answer.ts";
import type { RouterCore } from "./core.ts";
import type { ReadRequest } from "./read.ts";
import type { Prompt } from "./render.ts";

/**
 * Set the prompt's tokens aside for its subject's limits, and refuse it where it is longer than model or key allow.
 * @throws CgnError PROMPT_TOO_LONG
 */
export function checkPromptSize(core: RouterCore, exchange: Exchange, request: ReadRequest, prompt: Prompt): void {
  const { subject, ticket } = exchange;
  const model = request.model ?? "";
  const ofModel = core.maxPromptTokens.get(model);
  const ofKey = subject.limits.maxPromptTokens;
  // What nobody limits is not counted: it would cost a walk through the body.
  if (ofModel === undefined && ofKey === undefined && !ticket.countsTokens) return;
  const tokens = promptTokens(core, request, prompt);
  const limit = Math.min(ofModel ?? Number.POSITIVE_INFINITY, ofKey ?? Number.POSITIVE_INFINITY);
  if (tokens > limit) {
    const about = prompt.exactTokens === undefined ? "about " : "";
    const said = ofKey === limit ? `the key of "${subject.name}"` : `[models."${model}"].max_prompt_tokens`;
    const message = `Cannot take the prompt: it has ${about}${tokens} tokens, and ${said} allows ${limit}. Send a shorter one`;
    throw new CgnError("PROMPT_TOO_LONG", message, { param: request.kind === "chat" ? "messages" : "prompt" });
  }
  ticket.reserve(tokens);
}

/** Exact where the client sent tokens; else by the ratio that is learnt for the model. */
function promptTokens({ learning }: RouterCore, request: ReadRequest, prompt: Prompt): number {
  if (prompt.exactTokens !== undefined) return prompt.exactTokens;
  const rendered = prompt.bytes !== undefined;
  const bytes = rendered ? prompt.length : (request.away?.textBytes ?? textBytes(request, prompt));
  return Math.ceil(bytes / learning.ratio(request.model ?? "", rendered).bytesPerToken());
}

/** Members whose texts are pictures, sounds and files: their tokens have nothing to do with their bytes. */
const MEDIA = new Set(["image_url", "input_audio", "video_url", "audio_url", "file", "source", "url", "data"]);
const PROMPT_MEMBERS = [
  "messages",
  "prompt",
  "input",
  "system",
  "instructions",
  "tools",
  "query",
  "documents",
  "texts",
];

/** Bytes of the texts in a body that could not be rendered. One that was not built counts whole. */
export function textBytes({ json, unmatched }: ReadRequest, prompt: Prompt): number {
  if (json === undefined || unmatched !== undefined) return prompt.length;
  let bytes = 0;
  const walk = (value: unknown, depth: number): void => {
    if (typeof value === "string") bytes += Buffer.byteLength(value);
    else if (depth > 32) return;
    else if (Array.isArray(value)) for (const item of value) walk(item, depth + 1);
    else if (isObject(value)) {
      for (const [name, item] of Object.entries(value)) if (!MEDIA.has(name)) walk(item, depth + 1);
    }
  };
  for (const name of PROMPT_MEMBERS) walk(json[name], 0);
  return bytes;
}
