import { isObject, type Json, malformed, noCounterpart } from "./conversion.ts";

/** Members of Anthropic's request that are read here, or that say nothing to a chat completion. */
const READ = new Set([
  "messages",
  "system",
  "stop_sequences",
  "tools",
  "tool_choice",
  "thinking",
  "output_config",
  "output_format",
  "metadata",
  "stream",
  "stream_options",
  "max_tokens",
  "service_tier",
  "context_management",
  "cache_control",
  "inference_geo",
  "container",
  "mcp_servers",
  "betas",
]);

/**
 * A request of Anthropic's Messages API as a chat completion. Members that Anthropic does not know (`cache_salt`, `seed`, an engine's
 * own) go along as they are.
 * @throws CgnError REQUEST_INVALID, NOT_SUPPORTED
 */
export function chatFromMessages(json: Readonly<Json>): Json {
  requireNone(json, "mcp_servers", "container");
  const chat: Json = {};
  for (const key of Object.keys(json)) if (!READ.has(key)) chat[key] = json[key];
  chat["messages"] = chatMessages(json);
  chat["max_tokens"] = maxTokens(json["max_tokens"]);
  const { stop_sequences: stop, metadata, stream } = json;
  if (Array.isArray(stop) && stop.length > 0) chat["stop"] = stop;
  if (isObject(metadata) && typeof metadata["user_id"] === "string") chat["user"] = metadata["user_id"];
  setTools(json, chat);
  setThinking(json, chat);
  setFormat(json, chat);
  if (stream === true) {
    chat["stream"] = true;
    chat["stream_options"] = { include_usage: true };
  }
  return chat;
}

function requireNone(json: Readonly<Json>, ...names: readonly string[]): void {
  for (const name of names) {
    const value = json[name];
    if (value === undefined || value === null || (Array.isArray(value) && value.length === 0)) continue;
    throw noCounterpart(`it has "${name}"`, "Leave it out: it is a service of Anthropic's own servers");
  }
}

function maxTokens(value: unknown): number {
  if (typeof value === "number" && Number.isInteger(value) && value > 0) return value;
  const is = value === undefined ? 'it has no "max_tokens"' : '"max_tokens" is no positive integer';
  throw malformed(is, 'Say how many tokens may be generated, for example {"max_tokens": 1024}', "max_tokens");
}

function chatMessages({ system, messages }: Readonly<Json>): Json[] {
  if (!Array.isArray(messages) || messages.length === 0) {
    throw malformed('"messages" is no list with something in it', "Send at least one message", "messages");
  }
  const out: Json[] = [];
  const instructions = systemText(system, "system");
  if (instructions !== "") out.push({ role: "system", content: instructions });
  for (let i = 0; i < messages.length; i++) addMessage(messages[i], `messages[${i}]`, out);
  return out;
}

/** Text blocks joined as they are (vLLM 0.32, anthropic/serving.py, does the same). */
function systemText(system: unknown, at: string): string {
  if (system === undefined || system === null) return "";
  if (typeof system === "string") return system;
  if (!Array.isArray(system)) throw malformed(`"${at}" is no text and no list`, "Send text, or text blocks", at);
  return system.map((block, i) => textBlock(block, `${at}[${i}]`)).join("");
}

function textBlock(block: unknown, at: string): string {
  if (isObject(block) && typeof block["text"] === "string") return block["text"];
  throw malformed(`${at} is no text block`, 'Send {"type": "text", "text": "…"}', at);
}

function addMessage(message: unknown, at: string, out: Json[]): void {
  if (!isObject(message)) throw malformed(`${at} is no object`, "Send messages with role and content", at);
  const { role, content } = message;
  if (role !== "user" && role !== "assistant" && role !== "system") {
    throw malformed(`${at}.role is ${JSON.stringify(role)}`, 'It must be "user" or "assistant"', `${at}.role`);
  }
  if (typeof content === "string") {
    out.push({ role, content });
    return;
  }
  if (!Array.isArray(content)) {
    throw malformed(`${at}.content is no text and no list`, "Send text, or content blocks", `${at}.content`);
  }
  if (role === "system") out.push({ role, content: systemText(content, `${at}.content`) });
  else if (role === "user") addUserBlocks(content, `${at}.content`, out);
  else out.push(assistantMessage(content, `${at}.content`));
}

/** Results of tools stand before what the user says besides: they must follow the calls. */
function addUserBlocks(blocks: readonly unknown[], at: string, out: Json[]): void {
  const parts: Json[] = [];
  for (let i = 0; i < blocks.length; i++) {
    const block = blocks[i];
    const place = `${at}[${i}]`;
    if (isObject(block) && block["type"] === "tool_result") addToolResult(block, place, out, parts);
    else parts.push(...userParts(block, place));
  }
  if (parts.length > 0) out.push({ role: "user", content: contentOf(parts) });
}

/** One text is sent as plain text, which every template takes. */
function contentOf(parts: readonly Json[]): unknown {
  const only = parts.length === 1 ? parts[0]! : undefined;
  return only?.["type"] === "text" ? only["text"] : parts;
}

/** A tool's message holds text only; images of a result go to the user's message that follows. */
function addToolResult(block: Readonly<Json>, at: string, out: Json[], parts: Json[]): void {
  const { tool_use_id: id, content } = block;
  if (typeof id !== "string") throw malformed(`${at} has no "tool_use_id"`, "Name the call", `${at}.tool_use_id`);
  const inner = Array.isArray(content) ? content.flatMap((b, i) => userParts(b, `${at}.content[${i}]`)) : [];
  const texts = inner.filter((part) => part["type"] === "text").map((part) => part["text"]);
  out.push({ role: "tool", tool_call_id: id, content: typeof content === "string" ? content : texts.join("\n") });
  parts.push(...inner.filter((part) => part["type"] !== "text"));
}

function userParts(block: unknown, at: string): Json[] {
  if (!isObject(block)) throw malformed(`${at} is no object`, "Send content blocks", at);
  const { type, source } = block;
  if (type === "text") return [{ type: "text", text: textBlock(block, at) }];
  if (type === "image" && isObject(source)) return [{ type: "image_url", image_url: { url: imageUrl(source, at) } }];
  if (type === "search_result" && Array.isArray(block["content"])) {
    return block["content"].map((b, i) => ({ type: "text", text: textBlock(b, `${at}.content[${i}]`) }));
  }
  if (type === "document" && isObject(source)) return documentParts(source, at);
  throw noCounterpart(`${at} is a ${JSON.stringify(type)} block`, "Send text, images, and tool results");
}

function imageUrl(source: Readonly<Json>, at: string): string {
  const { type, url, media_type: media, data } = source;
  if (type === "url" && typeof url === "string") return url;
  if (type === "base64" && typeof data === "string") return `data:${String(media ?? "image/jpeg")};base64,${data}`;
  if (type === "url" || type === "base64") {
    const member = type === "url" ? "url" : "data";
    throw malformed(`${at}.source has no "${member}"`, `Send it as text in "${member}"`, `${at}.source`);
  }
  throw noCounterpart(`${at}.source is of type ${JSON.stringify(type)}`, "Send images as base64 or url");
}

function documentParts(source: Readonly<Json>, at: string): Json[] {
  const { type, data, content } = source;
  if (type === "text" && typeof data === "string") return [{ type: "text", text: data }];
  if (type === "content" && typeof content === "string") return [{ type: "text", text: content }];
  if (type === "content" && Array.isArray(content)) {
    return content.flatMap((b, i) => userParts(b, `${at}.source.content[${i}]`));
  }
  throw noCounterpart(`${at} is a document of type ${JSON.stringify(type)}`, "Send its text");
}

function assistantMessage(blocks: readonly unknown[], at: string): Json {
  const texts: string[] = [];
  const thoughts: string[] = [];
  const calls: Json[] = [];
  for (let i = 0; i < blocks.length; i++) {
    const block = blocks[i];
    const place = `${at}[${i}]`;
    if (!isObject(block)) throw malformed(`${place} is no object`, "Send content blocks", place);
    if (block["type"] === "text") texts.push(textBlock(block, place));
    else if (block["type"] === "thinking") thoughts.push(String(block["thinking"] ?? ""));
    else if (block["type"] === "tool_use") calls.push(toolCall(block));
    // Encrypted for Anthropic's own servers.
    else if (block["type"] !== "redacted_thinking") {
      throw noCounterpart(`${place} is a ${JSON.stringify(block["type"])} block`, "Send text, thinking, and tool_use");
    }
  }
  return {
    role: "assistant",
    content: texts.length === 0 && calls.length > 0 ? null : texts.join(""),
    ...(thoughts.length === 0 ? {} : { reasoning_content: thoughts.join("") }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
}

function toolCall({ id, name, input }: Readonly<Json>): Json {
  return { id, type: "function", function: { name, arguments: JSON.stringify(input ?? {}) } };
}

function setTools({ tools, tool_choice: choice }: Readonly<Json>, chat: Json): void {
  if (Array.isArray(tools) && tools.length > 0) chat["tools"] = tools.map((tool, i) => chatTool(tool, `tools[${i}]`));
  if (!isObject(choice)) return;
  const { type, name, disable_parallel_tool_use: oneOnly } = choice;
  const words: Readonly<Record<string, unknown>> = {
    auto: "auto",
    any: "required",
    none: "none",
    tool: { type: "function", function: { name } },
  };
  const said = Object.hasOwn(words, String(type)) ? words[String(type)] : undefined;
  if (said === undefined) {
    const should = 'It must be "auto", "any", "tool" or "none"';
    throw malformed(`"tool_choice.type" is ${JSON.stringify(type)}`, should, "tool_choice");
  }
  chat["tool_choice"] = said;
  if (typeof oneOnly === "boolean") chat["parallel_tool_calls"] = !oneOnly;
}

function chatTool(tool: unknown, at: string): Json {
  if (!isObject(tool)) throw malformed(`${at} is no object`, "Send tools with name and input_schema", at);
  const { type, name, description, input_schema: schema, strict } = tool;
  if (type !== undefined && type !== null && type !== "custom") {
    throw noCounterpart(`${at} is of type ${JSON.stringify(type)}`, "Send tools of your own, with an input_schema");
  }
  const more = { ...(description === undefined ? {} : { description }), ...(strict === undefined ? {} : { strict }) };
  return { type: "function", function: { name, ...more, parameters: schema ?? { type: "object" } } };
}

/** Templates with a thinking mode read `enable_thinking`; one that the client wrote itself stands. */
function setThinking({ thinking, chat_template_kwargs: kwargs }: Readonly<Json>, chat: Json): void {
  if (!isObject(thinking)) return;
  const { type } = thinking;
  if (type !== "enabled" && type !== "disabled") return;
  chat["chat_template_kwargs"] = { enable_thinking: type === "enabled", ...(isObject(kwargs) ? kwargs : {}) };
}

function setFormat({ output_config: config, output_format: old }: Readonly<Json>, chat: Json): void {
  const { effort, format = old } = isObject(config) ? config : {};
  if (typeof effort === "string") chat["reasoning_effort"] = effort;
  if (!isObject(format) || format["type"] !== "json_schema") return;
  chat["response_format"] = {
    type: "json_schema",
    json_schema: { name: "output", schema: format["schema"], strict: true },
  };
}
