import { type ChatRequest, isJsonObject, type Json, type Prepared } from "../../core/chat-request.ts";

/**
 * The chat that llama-server makes of a body of `/v1/responses`: tools/server/server-chat.cpp,
 * `server_chat_convert_responses_to_chatcmpl()`, build 11434.
 */
export function llamaChatOfResponses(body: Json): Prepared<ChatRequest> {
  const { instructions, input, tools, reasoning, chat_template_kwargs: kwargs } = body;
  const messages: Record<string, unknown>[] = [];
  if (instructions !== undefined)
    messages.push({ role: "system", content: typeof instructions === "string" ? instructions : "" });
  if (typeof input === "string") messages.push({ role: "user", content: input });
  else if (!Array.isArray(input)) return { reason: "input is neither text nor a list" };
  else {
    for (const item of input as unknown[]) {
      if (!isJsonObject(item) || !addItem(messages, item)) return { reason: "its input has an item that is not known" };
    }
  }
  const effort = isJsonObject(reasoning) ? reasoning["effort"] : undefined;
  const functions = Array.isArray(tools)
    ? tools.filter((tool) => isJsonObject(tool) && tool["type"] === "function")
    : [];
  return {
    value: {
      messages,
      ...(functions.length === 0
        ? {}
        : { tools: functions.map(({ type: _, ...named }: Json) => ({ type: "function", function: named })) }),
      ...(effort === undefined ? {} : { reasoning_effort: effort }),
      ...(isJsonObject(kwargs) ? { chat_template_kwargs: kwargs } : {}),
    },
  };
}

/** @returns false for an item that the server refuses, or that is not known here */
function addItem(messages: Record<string, unknown>[], item: Json): boolean {
  const before = messages.at(-1);
  const assistant = before?.["role"] === "assistant" ? before : undefined;
  const { type, role, content } = item;
  if (role === "user" || role === "system" || role === "developer") {
    const parts = partsOf(content);
    if (parts === undefined) return false;
    messages.push({ role, content: parts });
    return true;
  }
  if (role === "assistant" && type === "message") {
    const parts = partsOf(content) ?? [];
    if (assistant === undefined) messages.push({ role, content: parts });
    else assistant["content"] = [...(Array.isArray(assistant["content"]) ? assistant["content"] : []), ...parts];
    return true;
  }
  if (type === "function_call") return addCall(messages, assistant, item);
  if (type === "function_call_output") return addOutput(messages, item);
  if (type !== "reasoning" || !Array.isArray(content) || !isJsonObject(content[0])) return false;
  const thoughts = content[0]["text"];
  if (assistant === undefined) messages.push({ role: "assistant", content: [], reasoning_content: thoughts });
  else assistant["reasoning_content"] = thoughts;
  return true;
}

function addCall(
  messages: Record<string, unknown>[],
  assistant: Record<string, unknown> | undefined,
  item: Json,
): boolean {
  const { call_id: id, name, arguments: args } = item;
  if (typeof id !== "string" || typeof name !== "string" || typeof args !== "string") return false;
  const call = { function: { arguments: args, name }, id, type: "function" };
  if (assistant === undefined) messages.push({ role: "assistant", tool_calls: [call] });
  else assistant["tool_calls"] = [...(Array.isArray(assistant["tool_calls"]) ? assistant["tool_calls"] : []), call];
  return true;
}

function addOutput(messages: Record<string, unknown>[], { call_id: id, output }: Json): boolean {
  if (typeof id !== "string") return false;
  const content = typeof output === "string" ? output : partsOf(output);
  if (content === undefined) return false;
  messages.push({ role: "tool", tool_call_id: id, content });
  return true;
}

/** Parts of text under the name that chats have for them; undefined where one is something else. */
function partsOf(content: unknown): readonly Json[] | undefined {
  if (typeof content === "string") return [{ type: "text", text: content }];
  if (!Array.isArray(content)) return undefined;
  const parts = content.map((part: unknown) => {
    const known = isJsonObject(part) && (part["type"] === "input_text" || part["type"] === "output_text");
    return known && typeof part["text"] === "string" ? { type: "text", text: part["text"] } : undefined;
  });
  return parts.every((part) => part !== undefined) ? parts : undefined;
}
