import type { ChatRequest, Json } from "../core/chat-request.ts";
import { hasOddNumbers, parseExact } from "../core/exact-numbers.ts";
import type { Log } from "../core/log.ts";
import type { RenderedPrompt } from "../prompt/chat-template.ts";
import { prefixHash } from "../routing/rendezvous.ts";
import { isObject } from "./answer.ts";
import type { ModelGroup } from "./fleet.ts";
import type { ReadRequest } from "./read.ts";

/** A promise only for a long chat, which is rendered on another thread; it never rejects. */
export type PendingPrompt = RenderedPrompt | Promise<RenderedPrompt>;

/** Makes the bytes that one model's engines see before they tokenise. */
export interface PromptRenderer {
  /** @throws CgnError TEMPLATE_FAILED */
  chat(request: ChatRequest): PendingPrompt;
  completion(prompt: unknown): RenderedPrompt;
  /** A body of Anthropic's `/v1/messages`. @throws CgnError TEMPLATE_FAILED */
  messages(body: Json): PendingPrompt;
  /** A body of `/v1/responses`. @throws CgnError TEMPLATE_FAILED */
  responses(body: Json): PendingPrompt;
}

/** Finds a model's renderer. A promise only while it is being loaded; undefined: there is none (the source says why). */
export interface RendererSource {
  get(group: ModelGroup): PromptRenderer | undefined | Promise<PromptRenderer | undefined>;
}

/** What is known of a request's prompt. */
export interface Prompt {
  /** Undefined: it cannot be rendered, and the request is routed by load. */
  readonly bytes: Uint8Array | undefined;
  /** Why there are no bytes. */
  readonly reason: string | undefined;
  /** How many bytes it has; the body's length stands in where it could not be rendered. */
  readonly length: number;
  /** Token count, where the client sent tokens. */
  readonly exactTokens: number | undefined;
  /** Name of the prefix, for rendezvous. */
  readonly prefix: number;
}

/** Render the prompt of a request. Never throws: a prompt that cannot be rendered is the engine's to judge. */
export function render(request: ReadRequest, renderer: PromptRenderer | undefined, log: Log): Prompt | Promise<Prompt> {
  const rendered = bytesOf(request, renderer, log);
  return rendered instanceof Promise ? rendered.then((made) => promptOf(request, made)) : promptOf(request, rendered);
}

function promptOf(request: ReadRequest, rendered: RenderedPrompt): Prompt {
  const bytes = "bytes" in rendered ? rendered.bytes : undefined;
  const basis = bytes ?? request.body;
  return {
    bytes,
    reason: "reason" in rendered ? rendered.reason : undefined,
    length: basis.length,
    exactTokens: tokenCount(request),
    prefix: prefixHash(request.root, basis),
  };
}

function bytesOf(request: ReadRequest, renderer: PromptRenderer | undefined, log: Log): PendingPrompt {
  const { kind, json, model, unmatched } = request;
  if (!HAS_PROMPT.has(kind)) return { reason: "this endpoint has no prompt to match" };
  if (unmatched !== undefined) return { reason: unmatched };
  if (kind !== "completion" && pieces(json) > MAX_PIECES) {
    return { reason: `the chat has more than ${MAX_PIECES} messages, parts, calls, tools and documents` };
  }
  if (renderer === undefined) return { reason: "no chat template and tokenizer are known for the model" };
  try {
    if (kind === "completion") return renderer.completion(json?.["prompt"]);
    const body = exactBody(request);
    if (kind === "chat") return renderer.chat(body);
    return kind === "messages" ? renderer.messages(body) : renderer.responses(body);
  } catch (e) {
    const said = e instanceof Error ? e.message : String(e);
    log
      .once(`render/${model}`)
      .warn("A prompt could not be rendered; such requests are routed by load only", { model, said });
    return { reason: said };
  }
}

/** The body with its numbers as they are written, where a template may print them: `1.0` is not `1` in a prompt. */
function exactBody({ kind, json = {}, body }: ReadRequest): Json {
  if (!Array.isArray(json["tools"]) && kind !== "messages") return json;
  const text = body.toString("latin1");
  if (!hasOddNumbers(text)) return json;
  const exact = parseExact(body.toString("utf8")) as Json;
  return { ...exact, model: json["model"] };
}

const HAS_PROMPT: ReadonlySet<ReadRequest["kind"]> = new Set(["chat", "completion", "messages", "responses"]);

/** What a template walks over: 10 µs each. */
const MAX_PIECES = 2_000;

function pieces(json: ReadRequest["json"]): number {
  const { input, messages = input, tools, documents } = json ?? {};
  let count = (Array.isArray(tools) ? tools.length : 0) + (Array.isArray(documents) ? documents.length : 0);
  if (!Array.isArray(messages)) return count;
  count += messages.length;
  for (let i = 0; i < messages.length && count <= MAX_PIECES; i++) {
    const message: unknown = messages[i];
    if (!isObject(message)) continue;
    const { content, tool_calls: calls } = message;
    if (Array.isArray(content)) count += content.length;
    if (Array.isArray(calls)) count += calls.length;
  }
  return count;
}

function tokenCount({ kind, json }: ReadRequest): number | undefined {
  const prompt = json?.["prompt"];
  if (kind !== "completion" || !Array.isArray(prompt)) return undefined;
  return prompt.length > 0 && prompt.every((id) => typeof id === "number") ? prompt.length : undefined;
}
