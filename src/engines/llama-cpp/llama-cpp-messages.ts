import { type ChatRequest, isJsonObject, type Json, type Prepared } from "../../core/chat-request.ts";

/**
 * The chat that llama-server makes of a body of `/v1/messages`: tools/server/server-chat.cpp,
 * `server_chat_convert_anthropic_to_oai()`, build 11434.
 */
export function llamaChatOfMessages(body: Json): Prepared<ChatRequest> {
  const { system, messages, tools, chat_template_kwargs: kwargs } = body;
  if (!Array.isArray(messages) || !messages.every(isJsonObject)) return { reason: "messages is no list of objects" };
  const first = systemText(system);
  return {
    value: {
      messages: [...(first === undefined ? [] : [{ role: "system", content: first }]), ...messages.flatMap(messagesOf)],
      ...(Array.isArray(tools) ? { tools: tools.map(toolOf) } : {}),
      ...(isJsonObject(kwargs) ? { chat_template_kwargs: kwargs } : {}),
    },
  };
}

function systemText(system: unknown): string | undefined {
  if (typeof system === "string") return withFixedStamp(system);
  if (!Array.isArray(system)) return undefined;
  return texts(system).map(withFixedStamp).join("");
}

/** Claude Code's first line has a stamp of five letters, another one in each request; the server writes f over it. */
function withFixedStamp(text: string): string {
  if (!text.startsWith(HEADER)) return text;
  const at = text.indexOf("cch=", HEADER.length) + 4;
  return at < 4 || text[at + 5] !== ";" ? text : `${text.slice(0, at)}fffff${text.slice(at + 5)}`;
}

const HEADER = "x-anthropic-billing-header:";

/** One message becomes several where it brings tools' results: they come behind it. */
function messagesOf(message: Json): readonly Json[] {
  const { role, content } = message;
  if (content === undefined && role === "assistant") return [];
  if (!Array.isArray(content)) return [message];
  const parts: Json[] = [];
  const calls: Json[] = [];
  const results: Json[] = [];
  let thoughts = "";
  for (const block of content.filter(isJsonObject)) {
    if (block["type"] === "text") parts.push({ type: "text", text: block["text"] });
    else if (block["type"] === "thinking") thoughts += textOr(block["thinking"]);
    else if (block["type"] === "image") parts.push({ type: "image_url" });
    else if (block["type"] === "tool_use") calls.push(callOf(block));
    else if (block["type"] === "tool_result") results.push(resultOf(block));
  }
  if (parts.length + calls.length === 0 && thoughts === "") return results;
  const made = {
    role,
    content: parts.length === 0 ? "" : parts,
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
    ...(thoughts === "" ? {} : { reasoning_content: thoughts }),
  };
  return [made, ...results];
}

function callOf({ id, name, input }: Json): Json {
  const written = JSON.stringify(input === undefined ? {} : input);
  return { id: textOr(id), type: "function", function: { name: textOr(name), arguments: written } };
}

function resultOf({ tool_use_id: id, content }: Json): Json {
  const made = { role: "tool", tool_call_id: textOr(id) };
  if (!Array.isArray(content)) return { ...made, content: textOr(content) };
  const image = content.some((part) => isJsonObject(part) && part["type"] === "image");
  return { ...made, content: image ? [{ type: "image_url" }] : texts(content).join("") };
}

function toolOf(tool: unknown): unknown {
  if (!isJsonObject(tool)) return tool;
  const { name, description, input_schema: parameters = {} } = tool;
  return { type: "function", function: { name: textOr(name), description: textOr(description), parameters } };
}

function texts(blocks: readonly unknown[]): readonly string[] {
  return blocks.flatMap((block) => (isJsonObject(block) && block["type"] === "text" ? [textOr(block["text"])] : []));
}

const textOr = (value: unknown): string => (typeof value === "string" ? value : "");
