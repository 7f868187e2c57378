import {
  type AskedFor,
  firstChoice,
  isObject,
  type Json,
  namedEvent,
  type StreamConversion,
  textOf,
  thoughtsOf,
} from "./conversion.ts";
import {
  callItem,
  ending,
  itemId,
  logprobsOf,
  messageItem,
  responseHead,
  responseUsage,
  textPart,
  thoughtsItem,
} from "./responses-answer.ts";

/** An item of the output that is being written. */
interface OpenItem {
  readonly type: "text" | "thoughts" | "call";
  readonly id: string;
  readonly index: number;
  /** Text or arguments so far, in pieces. */
  readonly said: string[];
  readonly logprobs: unknown[];
  readonly call: { id: string; name: string };
}

/** The chunks of a chat completion as events of the Responses API, item after item. */
export class ResponseEvents implements StreamConversion {
  readonly #asked: AskedFor;
  #head: Json | undefined;
  #sequence = 0;
  readonly #output: Json[] = [];
  #items = 0;
  #open: OpenItem | undefined;
  readonly #calls = new Map<unknown, OpenItem>();
  #finish: unknown;
  #usage: unknown;

  constructor(asked: AskedFor) {
    this.#asked = asked;
  }

  chunk(chunk: Readonly<Json>): string {
    let out = this.#start(chunk);
    if (isObject(chunk["usage"])) this.#usage = chunk["usage"];
    const choice = firstChoice(chunk);
    if (choice === undefined) return out;
    if (isObject(choice["delta"])) out += this.#delta(choice["delta"], logprobsOf(choice));
    this.#finish = choice["finish_reason"] ?? this.#finish;
    return out;
  }

  end(): string {
    let out = this.#start({});
    // An answer without a word still has its message.
    if (this.#items === 0) out += this.#into("text");
    out += this.#close();
    const end = ending(this.#finish);
    const output = this.#output.filter((item) => item !== undefined);
    const response = { ...this.#head, ...end, output, usage: responseUsage(this.#usage) };
    return out + this.#event(`response.${String(end["status"])}`, { response });
  }

  #event(type: string, data: Json): string {
    return namedEvent({ type, sequence_number: this.#sequence++, ...data });
  }

  #start(chunk: Readonly<Json>): string {
    if (this.#head !== undefined) return "";
    this.#head = responseHead(chunk, this.#asked, "in_progress");
    const response = this.#head;
    return this.#event("response.created", { response }) + this.#event("response.in_progress", { response });
  }

  #delta(delta: Readonly<Json>, logprobs: readonly unknown[]): string {
    let out = "";
    const thoughts = thoughtsOf(delta);
    if (thoughts !== "") out += this.#into("thoughts") + this.#say("response.reasoning_text.delta", thoughts);
    const text = textOf(delta["content"]);
    if (text !== "") {
      out += this.#into("text");
      for (const entry of logprobs) this.#open!.logprobs.push(entry);
      out += this.#say("response.output_text.delta", text, { logprobs });
    }
    const calls = delta["tool_calls"];
    if (Array.isArray(calls)) for (const call of calls) if (isObject(call)) out += this.#call(call);
    return out;
  }

  /** Go on in an item of this type, a new one where another is open. */
  #into(type: "text" | "thoughts"): string {
    return this.#open?.type === type ? "" : this.#begin(type);
  }

  #begin(type: OpenItem["type"], call = { id: "", name: "" }): string {
    const closed = this.#close();
    const index = this.#items++;
    const word = { text: "msg", thoughts: "rs", call: "fc" } as const;
    const id = itemId(textOf(this.#head?.["id"]), word[type], index);
    const open: OpenItem = { type, id, index, said: [], logprobs: [], call };
    this.#open = open;
    const added = this.#event("response.output_item.added", { output_index: index, item: itemOf(open, "in_progress") });
    if (type === "call") return closed + added;
    return closed + added + this.#event("response.content_part.added", { ...place(open), part: partOf(open) });
  }

  #say(type: string, delta: string, more: Json = {}, item = this.#open!): string {
    item.said.push(delta);
    return this.#event(type, { ...place(item), delta, ...more });
  }

  #call(call: Readonly<Json>): string {
    const fn = isObject(call["function"]) ? call["function"] : {};
    let item = this.#calls.get(call["index"]);
    let out = "";
    // An engine that sends whole calls may not number them.
    if (item === undefined || call["index"] === undefined) {
      const id = textOf(call["id"]) || `call_${this.#asked.id}_${this.#calls.size}`;
      out += this.#begin("call", { id, name: textOf(fn["name"]) });
      item = this.#open!;
      this.#calls.set(call["index"] ?? item, item);
    }
    const text = textOf(fn["arguments"]);
    // Pieces for a call that was thought complete cannot be told any more.
    if (text === "" || item !== this.#open) return out;
    return out + this.#say("response.function_call_arguments.delta", text, {}, item);
  }

  #close(): string {
    const open = this.#open;
    if (open === undefined) return "";
    this.#open = undefined;
    const text = open.said.join("");
    const item = itemOf(open, "completed");
    this.#output[open.index] = item;
    const ended = (): string => this.#event("response.output_item.done", { output_index: open.index, item });
    if (open.type === "call") {
      const { name } = open.call;
      return this.#event("response.function_call_arguments.done", { ...place(open), name, arguments: text }) + ended();
    }
    const [type, more] =
      open.type === "text"
        ? (["response.output_text.done", { text, logprobs: open.logprobs }] as const)
        : (["response.reasoning_text.done", { text }] as const);
    const said = this.#event(type, { ...place(open), ...more });
    return said + this.#event("response.content_part.done", { ...place(open), part: partOf(open) }) + ended();
  }
}

function place({ type, id, index }: OpenItem): Json {
  return { item_id: id, output_index: index, ...(type === "call" ? {} : { content_index: 0 }) };
}

function partOf({ type, said, logprobs }: OpenItem): Json {
  const text = said.join("");
  return type === "text" ? textPart(text, [...logprobs]) : { type: "reasoning_text", text };
}

function itemOf(open: OpenItem, status: string): Json {
  const text = open.said.join("");
  if (open.type === "call") return callItem(open.id, status, { ...open.call, arguments: text });
  if (open.type === "thoughts") return thoughtsItem(open.id, text);
  return messageItem(open.id, status, status === "completed" ? [partOf(open)] : []);
}
