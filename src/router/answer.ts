/** What an answer tells about its own cost, wherever an engine puts it. All counts are the engine's. */
export interface AnswerFacts {
  promptTokens: number | undefined;
  completionTokens: number | undefined;
  cachedTokens: number | undefined;
  /** Milliseconds that the engine took for the prompt, where it says so (llama.cpp's `timings.prompt_ms`). */
  promptMs: number | undefined;
  /** Generated text of the first choice, as it came; undefined where it is not known (tool calls, other formats). */
  text: string | undefined;
  /** A choice said why it ended. */
  finished: boolean;
  /** The engine reported an error in a body or event of a 200 answer. */
  error: unknown;
}

export function noFacts(): AnswerFacts {
  return {
    promptTokens: undefined,
    completionTokens: undefined,
    cachedTokens: undefined,
    promptMs: undefined,
    text: undefined,
    finished: false,
    error: undefined,
  };
}

type Json = Readonly<Record<string, unknown>>;

export function isObject(v: unknown): v is Json {
  return typeof v === "object" && v !== null && !Array.isArray(v);
}

const count = (v: unknown): number | undefined =>
  typeof v === "number" && v >= 0 && Number.isFinite(v) ? v : undefined;

/**
 * Read a whole answer, or one event of a stream, into `facts`.
 *
 * Understands OpenAI's `usage`, llama.cpp's `timings` (which ride on the last chunk even when no usage was asked for),
 * and the usage of `/v1/responses` (`response.usage`, `input_tokens`) and `/v1/messages`, whose `input_tokens` leave out
 * what was cached.
 */
export function readAnswer(body: unknown, facts: AnswerFacts): void {
  if (!isObject(body)) return;
  readEnd(body, facts);
  if (isObject(body["response"])) readAnswer(body["response"], facts);
  if (isObject(body["message"]) && "usage" in body["message"]) readUsage(body["message"]["usage"], facts);
  readTimings(body["timings"], facts);
  readUsage(body["usage"], facts);
  if (body["error"] !== undefined && body["error"] !== null) facts.error = body["error"];
  const choices = body["choices"];
  if (!Array.isArray(choices)) return;
  for (const choice of choices) if (isObject(choice)) readChoice(choice, facts);
}

/** Events of `/v1/messages` and `/v1/responses` that carry text, or end an answer; `type` of a whole one is another word. */
function readEnd(body: Json, facts: AnswerFacts): void {
  const { type, delta } = body;
  if (typeof type !== "string") return;
  if (type === "message_stop" || /^response\.(completed|incomplete|failed)$/.test(type)) facts.finished = true;
  else if (type === "error") facts.error ??= body["error"] ?? body["message"] ?? type;
  else if (type === "response.output_text.delta") addText(delta, facts);
  else if (type === "content_block_delta" && isObject(delta)) addText(delta["text"], facts);
}

function readUsage(usage: unknown, facts: AnswerFacts): void {
  if (!isObject(usage)) return;
  const cachedApart = count(usage["cache_read_input_tokens"]);
  const details = usage["prompt_tokens_details"] ?? usage["input_tokens_details"];
  const cached = isObject(details) ? count(details["cached_tokens"]) : cachedApart;
  const prompt = count(usage["prompt_tokens"]) ?? count(usage["input_tokens"]);
  facts.cachedTokens = cached ?? facts.cachedTokens;
  if (prompt !== undefined) facts.promptTokens = prompt + (cachedApart ?? 0);
  facts.completionTokens = count(usage["completion_tokens"]) ?? count(usage["output_tokens"]) ?? facts.completionTokens;
}

function readTimings(timings: unknown, facts: AnswerFacts): void {
  if (!isObject(timings)) return;
  const cached = count(timings["cache_n"]);
  const computed = count(timings["prompt_n"]);
  facts.promptMs = count(timings["prompt_ms"]) ?? facts.promptMs;
  facts.cachedTokens = cached ?? facts.cachedTokens;
  if (cached !== undefined && computed !== undefined) facts.promptTokens = cached + computed;
  // With `timings_per_token` each chunk has them: the last one counts.
  facts.completionTokens = count(timings["predicted_n"]) ?? facts.completionTokens;
}

/** Characters of an answer that are kept for the index. */
const MAX_TEXT = 4 * 1024 * 1024;

function readChoice(choice: Json, facts: AnswerFacts): void {
  if (choice["finish_reason"] !== null && choice["finish_reason"] !== undefined) facts.finished = true;
  if ((choice["index"] ?? 0) !== 0) return;
  const part = choice["delta"] ?? choice["message"];
  addText(isObject(part) ? part["content"] : choice["text"], facts);
}

/** What is beyond is lost to the index only: a shorter text is still the beginning of the next turn's prompt. */
function addText(text: unknown, facts: AnswerFacts): void {
  if (typeof text === "string" && (facts.text?.length ?? 0) < MAX_TEXT) facts.text = (facts.text ?? "") + text;
}
