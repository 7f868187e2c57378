import { isObject, type Json, malformed, noCounterpart } from "./conversion.ts";

/** Members of OpenAI's Responses request that are read here, or that say nothing to a chat completion. */
const READ = new Set([
  "input",
  "instructions",
  "max_output_tokens",
  "tools",
  "tool_choice",
  "text",
  "reasoning",
  "stream",
  "stream_options",
  "include",
  "top_logprobs",
  "store",
  "background",
  "previous_response_id",
  "conversation",
  "prompt",
  "truncation",
  "metadata",
  "service_tier",
  "max_tool_calls",
  "safety_identifier",
  "prompt_cache_key",
  "prompt_cache_retention",
]);

/**
 * A request of the Responses API as a chat completion. Nothing is stored: what asks for a stored response is refused. Members that the
 * API does not know go along as they are.
 * @throws CgnError REQUEST_INVALID, NOT_SUPPORTED
 */
export function chatFromResponses(json: Readonly<Json>): Json {
  requireStateless(json);
  const chat: Json = {};
  for (const key of Object.keys(json)) if (!READ.has(key)) chat[key] = json[key];
  chat["messages"] = chatMessages(json);
  const { max_output_tokens: limit, reasoning, include, top_logprobs: top, stream } = json;
  if (limit !== undefined && limit !== null) chat["max_tokens"] = limit;
  if (isObject(reasoning) && typeof reasoning["effort"] === "string") chat["reasoning_effort"] = reasoning["effort"];
  if (Array.isArray(include) && include.includes("message.output_text.logprobs")) chat["logprobs"] = true;
  if (typeof top === "number") Object.assign(chat, { logprobs: true, top_logprobs: top });
  setTools(json, chat);
  setFormat(json, chat);
  if (stream === true) {
    chat["stream"] = true;
    chat["stream_options"] = { include_usage: true };
  }
  return chat;
}

function requireStateless(json: Readonly<Json>): void {
  for (const name of ["previous_response_id", "conversation", "prompt"]) {
    if (json[name] !== undefined && json[name] !== null)
      throw noCounterpart(`it has "${name}", and nothing is stored`, 'Send the whole conversation as "input"');
  }
  if (json["background"] === true)
    throw noCounterpart('it has "background": true', "Wait for the answer, or stream it");
}

function chatMessages({ input, instructions }: Readonly<Json>): Json[] {
  const out: Json[] = [];
  if (typeof instructions === "string" && instructions !== "") out.push({ role: "system", content: instructions });
  if (typeof input === "string") out.push({ role: "user", content: input });
  else if (Array.isArray(input)) for (let i = 0; i < input.length; i++) addItem(input[i], `input[${i}]`, out);
  else throw malformed('"input" is no text and no list', "Send text, or a list of items", "input");
  if (!out.some((m) => m["role"] !== "system")) throw malformed('"input" is empty', "Send at least one item", "input");
  return out;
}

function addItem(item: unknown, at: string, out: Json[]): void {
  if (!isObject(item)) throw malformed(`${at} is no object`, "Send items, for example messages", at);
  const { type, role } = item;
  if (type === "function_call") addCall(item, out);
  else if (type === "function_call_output") out.push(callOutput(item, at));
  else if (type === "reasoning") addThoughts(item, out);
  else if ((type === undefined || type === "message") && typeof role === "string") {
    addMessage(role, contentOf(item["content"], role, `${at}.content`), out);
  } else {
    throw noCounterpart(`${at} is a ${JSON.stringify(type)} item`, "Send messages, function calls and their outputs");
  }
}

/** The words of a turn that began with thoughts belong to it. */
function addMessage(role: string, content: unknown, out: Json[]): void {
  const last = out.at(-1);
  const begun = role === "assistant" && last?.["role"] === role && last["content"] === null && !("tool_calls" in last);
  if (begun) last["content"] = content;
  else out.push({ role, content });
}

function contentOf(content: unknown, role: string, at: string): unknown {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) throw malformed(`${at} is no text and no list`, "Send text, or a list of parts", at);
  const parts = content.map((part, i) => chatPart(part, `${at}[${i}]`));
  const texts = parts.map((part) => part["text"]);
  if (role === "assistant" && texts.every((text) => typeof text === "string")) return texts.join("");
  return parts.length === 1 && parts[0]!["type"] === "text" ? texts[0] : parts;
}

function chatPart(part: unknown, at: string): Json {
  if (!isObject(part)) throw malformed(`${at} is no object`, "Send parts, for example input_text", at);
  const { type, text, image_url: url, detail } = part;
  if ((type === "input_text" || type === "output_text" || type === "text") && typeof text === "string") {
    return { type: "text", text };
  }
  if (type === "refusal") return { type: "text", text: String(part["refusal"] ?? "") };
  if (type === "input_image" && typeof url === "string") {
    return { type: "image_url", image_url: { url, ...(typeof detail === "string" ? { detail } : {}) } };
  }
  if (type === "input_audio") return part;
  throw noCounterpart(`${at} is a ${JSON.stringify(type)} part`, "Send text and images by URL or as data URLs");
}

/** Calls and thoughts of one turn are items of their own there, and one message in a chat. */
function turnOf(out: Json[]): Json {
  const last = out.at(-1);
  if (last?.["role"] === "assistant") return last;
  const turn: Json = { role: "assistant", content: null };
  out.push(turn);
  return turn;
}

function addCall({ call_id: id, name, arguments: text }: Readonly<Json>, out: Json[]): void {
  const turn = turnOf(out);
  const calls = (turn["tool_calls"] ??= []) as Json[];
  calls.push({ id, type: "function", function: { name, arguments: typeof text === "string" ? text : "{}" } });
}

function callOutput({ call_id: id, output }: Readonly<Json>, at: string): Json {
  if (typeof id !== "string") throw malformed(`${at} has no "call_id"`, "Name the call", `${at}.call_id`);
  if (typeof output === "string") return { role: "tool", tool_call_id: id, content: output };
  const parts = contentOf(output, "tool", `${at}.output`);
  return { role: "tool", tool_call_id: id, content: parts };
}

function addThoughts({ content, summary }: Readonly<Json>, out: Json[]): void {
  const parts = Array.isArray(content) && content.length > 0 ? content : Array.isArray(summary) ? summary : [];
  const text = parts.map((part) => (isObject(part) ? String(part["text"] ?? "") : "")).join("");
  // A turn that has its text already is over: these thoughts begin the next one.
  if (text !== "") out.push({ role: "assistant", content: null, reasoning_content: text });
}

function setTools({ tools, tool_choice: choice }: Readonly<Json>, chat: Json): void {
  if (Array.isArray(tools) && tools.length > 0) chat["tools"] = tools.map((tool, i) => chatTool(tool, `tools[${i}]`));
  if (typeof choice === "string") chat["tool_choice"] = choice;
  else if (isObject(choice)) {
    if (choice["type"] !== "function")
      throw noCounterpart(`"tool_choice" is of type ${JSON.stringify(choice["type"])}`, "Name a function");
    chat["tool_choice"] = { type: "function", function: { name: choice["name"] } };
  }
}

function chatTool(tool: unknown, at: string): Json {
  if (!isObject(tool)) throw malformed(`${at} is no object`, "Send functions", at);
  const { type, name, description, parameters, strict } = tool;
  if (type !== "function")
    throw noCounterpart(`${at} is of type ${JSON.stringify(type)}`, "Send functions of your own");
  const fn: Json = { name };
  if (typeof description === "string") fn["description"] = description;
  if (parameters !== undefined && parameters !== null) fn["parameters"] = parameters;
  if (typeof strict === "boolean") fn["strict"] = strict;
  return { type: "function", function: fn };
}

function setFormat({ text }: Readonly<Json>, chat: Json): void {
  if (!isObject(text)) return;
  const { format, verbosity } = text;
  if (typeof verbosity === "string") chat["verbosity"] = verbosity;
  if (!isObject(format) || format["type"] === "text") return;
  const { type, ...rest } = format;
  chat["response_format"] = type === "json_schema" ? { type, json_schema: rest } : { type };
}
