import { type AskedFor, countsOf, firstChoice, isObject, type Json, textOf, thoughtsOf } from "./conversion.ts";

/** Members of the request that an answer repeats, with what they are where the client left them out. */
const ECHOED: Readonly<Json> = {
  instructions: null,
  max_output_tokens: null,
  metadata: {},
  parallel_tool_calls: true,
  previous_response_id: null,
  reasoning: { effort: null, summary: null },
  temperature: null,
  text: { format: { type: "text" } },
  tool_choice: "auto",
  tools: [],
  top_p: null,
  truncation: "disabled",
  user: null,
};

/** An answer's id, from the chat completion's own. */
export function responseId(chat: Readonly<Json>, { id }: AskedFor): string {
  const own = textOf(chat["id"]);
  return `resp_${(own === "" ? id : own).replace(/^(chatcmpl|resp)[-_]/, "")}`;
}

/** What an answer says besides its output. */
export function responseHead(chat: Readonly<Json>, asked: AskedFor, status: string): Json {
  const echoed = Object.entries(ECHOED).map(([key, absent]) => [key, asked.json[key] ?? absent]);
  const { created } = chat;
  return {
    id: responseId(chat, asked),
    object: "response",
    created_at: typeof created === "number" ? created : 0,
    status,
    error: null,
    incomplete_details: null,
    model: asked.model,
    output: [],
    usage: null,
    store: false,
    background: false,
    ...Object.fromEntries(echoed),
  };
}

/** How an answer ended, by the choice's finish. */
export function ending(finish: unknown): Json {
  if (finish === "length") return { status: "incomplete", incomplete_details: { reason: "max_output_tokens" } };
  if (finish === "content_filter") return { status: "incomplete", incomplete_details: { reason: "content_filter" } };
  return { status: "completed", incomplete_details: null };
}

export function responseUsage(usage: unknown): Json | null {
  const counts = countsOf(usage);
  if (counts === undefined) return null;
  return {
    input_tokens: counts.prompt,
    input_tokens_details: { cached_tokens: counts.cached ?? 0 },
    output_tokens: counts.completion,
    output_tokens_details: { reasoning_tokens: counts.reasoning ?? 0 },
    total_tokens: counts.prompt + counts.completion,
  };
}

/** Ids of one answer's items. */
export function itemId(response: string, word: "msg" | "rs" | "fc", index: number): string {
  return `${word}_${response.slice("resp_".length)}_${index}`;
}

export function thoughtsItem(id: string, text: string): Json {
  return { type: "reasoning", id, summary: [], content: text === "" ? [] : [{ type: "reasoning_text", text }] };
}

/** @param logprobs of the chat's choice, whose entries have the form that a part of an answer wants */
export function textPart(text: string, logprobs: readonly unknown[] = []): Json {
  return { type: "output_text", text, annotations: [], logprobs };
}

export function messageItem(id: string, status: string, parts: readonly Json[]): Json {
  return { type: "message", id, role: "assistant", status, content: parts };
}

export function callItem(id: string, status: string, call: { id: string; name: string; arguments: string }): Json {
  return { type: "function_call", id, call_id: call.id, name: call.name, arguments: call.arguments, status };
}

/** Log probabilities of a choice of a chat, or of a chunk of one. */
export function logprobsOf(choice: Readonly<Json> | undefined): readonly unknown[] {
  const logprobs = choice?.["logprobs"];
  return isObject(logprobs) && Array.isArray(logprobs["content"]) ? logprobs["content"] : [];
}

/** A whole chat completion as an answer of the Responses API. */
export function responseFromChat(chat: Readonly<Json>, asked: AskedFor): Json {
  const choice = firstChoice(chat);
  const message = isObject(choice?.["message"]) ? choice["message"] : {};
  const end = ending(choice?.["finish_reason"]);
  const id = responseId(chat, asked);
  const output: Json[] = [];
  const thoughts = thoughtsOf(message);
  if (thoughts !== "") output.push(thoughtsItem(itemId(id, "rs", output.length), thoughts));
  const text = textOf(message["content"]);
  const calls = Array.isArray(message["tool_calls"]) ? message["tool_calls"].filter(isObject) : [];
  if (text !== "" || calls.length === 0) {
    const part = textPart(text, logprobsOf(choice));
    output.push(messageItem(itemId(id, "msg", output.length), String(end["status"]), [part]));
  }
  for (const call of calls) {
    const fn = isObject(call["function"]) ? call["function"] : {};
    const said = { id: textOf(call["id"]), name: textOf(fn["name"]), arguments: textOf(fn["arguments"]) };
    output.push(callItem(itemId(id, "fc", output.length), "completed", said));
  }
  return { ...responseHead(chat, asked, ""), ...end, output, usage: responseUsage(chat["usage"]) };
}
