import {
  type AskedFor,
  type Counts,
  countsOf,
  firstChoice,
  isObject,
  type Json,
  namedEvent,
  type StreamConversion,
  textOf,
  thoughtsOf,
} from "./conversion.ts";

const STOPS: Readonly<Record<string, string>> = {
  stop: "end_turn",
  length: "max_tokens",
  tool_calls: "tool_use",
  function_call: "tool_use",
  content_filter: "refusal",
};

interface Stop {
  readonly stop_reason: string;
  readonly stop_sequence: string | null;
}

/** vLLM says in a choice's `stop_reason` which stop text it met; others do not tell. */
function stopOf(choice: Readonly<Json> | undefined, calls: boolean): Stop {
  const { finish_reason: reason, stop_reason: met } = choice ?? {};
  if (calls && reason !== "length") return { stop_reason: "tool_use", stop_sequence: null };
  if (reason === "stop" && typeof met === "string") return { stop_reason: "stop_sequence", stop_sequence: met };
  return { stop_reason: STOPS[String(reason)] ?? "end_turn", stop_sequence: null };
}

/** Anthropic counts what was cached apart from the rest. */
function usageOf(counts: Counts | undefined): Json {
  const cached = counts?.cached ?? 0;
  return {
    input_tokens: Math.max(0, (counts?.prompt ?? 0) - cached),
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: cached,
    output_tokens: counts?.completion ?? 0,
  };
}

/** `arguments` is text that a model wrote: what is no JSON object is kept, as one. */
function inputOf(text: unknown): Json {
  if (typeof text !== "string" || text.trim() === "") return {};
  try {
    const value: unknown = JSON.parse(text);
    if (isObject(value)) return value;
  } catch {
    // Told below, as it is.
  }
  return { arguments: text };
}

/** A whole chat completion as an answer of the Messages API. */
export function messageFromChat(chat: Readonly<Json>, asked: AskedFor): Json {
  const choice = firstChoice(chat);
  const message = isObject(choice?.["message"]) ? choice["message"] : {};
  const content: Json[] = [];
  const thinking = thoughtsOf(message);
  if (thinking !== "") content.push({ type: "thinking", thinking, signature: "" });
  const text = textOf(message["content"]);
  const calls = Array.isArray(message["tool_calls"]) ? message["tool_calls"].filter(isObject) : [];
  if (text !== "" || (calls.length === 0 && thinking === "")) content.push({ type: "text", text });
  for (const call of calls) content.push(toolUse(call));
  return {
    id: messageId(chat, asked),
    type: "message",
    role: "assistant",
    model: asked.model,
    content,
    ...stopOf(choice, calls.length > 0),
    usage: usageOf(countsOf(chat["usage"])),
  };
}

function toolUse(call: Readonly<Json>): Json {
  const fn = isObject(call["function"]) ? call["function"] : {};
  return { type: "tool_use", id: textOf(call["id"]), name: textOf(fn["name"]), input: inputOf(fn["arguments"]) };
}

function messageId(chat: Readonly<Json>, { id }: AskedFor): string {
  const own = textOf(chat["id"]);
  return `msg_${(own === "" ? id : own).replace(/^(chatcmpl|msg)[-_]/, "")}`;
}

/** A block that is being written. */
interface OpenBlock {
  readonly index: number;
  readonly type: "text" | "thinking" | "tool_use";
}

/** The chunks of a chat completion as events of the Messages API, block after block. */
export class MessageEvents implements StreamConversion {
  readonly #asked: AskedFor;
  #started = false;
  #blocks = 0;
  #open: OpenBlock | undefined;
  /** Blocks of tool calls, by the `index` that chunks name them by. */
  readonly #calls = new Map<unknown, OpenBlock>();
  #choice: Readonly<Json> | undefined;
  #counts: Counts | undefined;

  constructor(asked: AskedFor) {
    this.#asked = asked;
  }

  chunk(chunk: Readonly<Json>): string {
    let out = this.#start(chunk);
    this.#counts = countsOf(chunk["usage"]) ?? this.#counts;
    const choice = firstChoice(chunk);
    if (choice === undefined) return out;
    if (isObject(choice["delta"])) out += this.#delta(choice["delta"]);
    if ((choice["finish_reason"] ?? null) !== null) this.#choice = choice;
    return out;
  }

  end(): string {
    const out = this.#start({}) + this.#close();
    const delta = stopOf(this.#choice, this.#calls.size > 0) as object as Json;
    return (
      out +
      namedEvent({ type: "message_delta", delta, usage: usageOf(this.#counts) }) +
      namedEvent({ type: "message_stop" })
    );
  }

  #start(chunk: Readonly<Json>): string {
    if (this.#started) return "";
    this.#started = true;
    const message = {
      id: messageId(chunk, this.#asked),
      type: "message",
      role: "assistant",
      model: this.#asked.model,
      content: [],
      stop_reason: null,
      stop_sequence: null,
      // A chat completion tells its prompt's tokens at the end only; `message_delta` has them.
      usage: usageOf(undefined),
    };
    return namedEvent({ type: "message_start", message });
  }

  #delta(delta: Readonly<Json>): string {
    let out = "";
    const thinking = thoughtsOf(delta);
    if (thinking !== "") {
      out += this.#into("thinking", { type: "thinking", thinking: "", signature: "" });
      out += this.#say({ type: "thinking_delta", thinking });
    }
    const text = textOf(delta["content"]);
    if (text !== "") out += this.#into("text", { type: "text", text: "" }) + this.#say({ type: "text_delta", text });
    const calls = delta["tool_calls"];
    if (Array.isArray(calls)) for (const call of calls) if (isObject(call)) out += this.#call(call);
    return out;
  }

  /** Go on in a block of this type, a new one where another is open. */
  #into(type: OpenBlock["type"], block: Json): string {
    return this.#open?.type === type ? "" : this.#begin(type, block);
  }

  #begin(type: OpenBlock["type"], block: Json): string {
    const closed = this.#close();
    this.#open = { index: this.#blocks++, type };
    return closed + namedEvent({ type: "content_block_start", index: this.#open.index, content_block: block });
  }

  #say(delta: Json, block = this.#open): string {
    return namedEvent({ type: "content_block_delta", index: block?.index ?? 0, delta });
  }

  #call(call: Readonly<Json>): string {
    const fn = isObject(call["function"]) ? call["function"] : {};
    let block = this.#calls.get(call["index"]);
    let out = "";
    // An engine that sends whole calls may not number them.
    if (block === undefined || call["index"] === undefined) {
      const id = textOf(call["id"]) || `toolu_${this.#asked.id}_${this.#calls.size}`;
      out += this.#begin("tool_use", { type: "tool_use", id, name: textOf(fn["name"]), input: {} });
      block = this.#open!;
      this.#calls.set(call["index"] ?? block, block);
    }
    const json = textOf(fn["arguments"]);
    return json === "" ? out : out + this.#say({ type: "input_json_delta", partial_json: json }, block);
  }

  #close(): string {
    const open = this.#open;
    this.#open = undefined;
    return open === undefined ? "" : namedEvent({ type: "content_block_stop", index: open.index });
  }
}
