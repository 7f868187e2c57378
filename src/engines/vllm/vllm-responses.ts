import { type ChatRequest, isJsonObject, type Json, type Prepared } from "../../core/chat-request.ts";

/**
 * The chat that vLLM 0.32 makes of a body of `/v1/responses` for all models but gpt-oss: entrypoints/openai/responses/utils.py,
 * `construct_input_messages()`. What it remembers of earlier responses is known to it alone.
 */
export function chatOfResponses(body: Json): Prepared<ChatRequest> {
  const { instructions, input, tools, reasoning } = body;
  if (typeof body["previous_response_id"] === "string")
    return { reason: "it goes on from a response that the engine remembers" };
  const messages: Record<string, unknown>[] = [];
  if (typeof instructions === "string" && instructions !== "") messages.push({ role: "system", content: instructions });
  if (typeof input === "string") messages.push({ role: "user", content: input });
  else if (!Array.isArray(input)) return { reason: "input is neither text nor a list" };
  else {
    for (const item of input as unknown[]) {
      if (!isJsonObject(item) || !addItem(messages, item)) return { reason: "its input has an item that is not known" };
    }
  }
  const last: unknown = Array.isArray(input) ? input.at(-1) : undefined;
  const goesOn = isJsonObject(last) && isUnfinished(last);
  const effort = isJsonObject(reasoning) ? reasoning["effort"] : undefined;
  const functions = Array.isArray(tools)
    ? tools.filter((tool) => isJsonObject(tool) && tool["type"] === "function")
    : [];
  return {
    value: {
      messages,
      ...(Array.isArray(tools) && tools.length > 0
        ? { tools: functions.map(({ type: _, ...named }: Json) => ({ type: "function", function: named })) }
        : {}),
      ...(goesOn ? { continue_final_message: true, add_generation_prompt: false } : {}),
      ...(effort === undefined || effort === null ? {} : { reasoning_effort: effort }),
      ...(isJsonObject(body["chat_template_kwargs"]) ? { chat_template_kwargs: body["chat_template_kwargs"] } : {}),
    },
  };
}

function isUnfinished({ type = "message", status }: Json): boolean {
  return (type === "message" || type === "reasoning") && (status === "in_progress" || status === "incomplete");
}

/** Items of one answer (thoughts, text, calls) become one message. @returns false for an item that is refused */
function addItem(messages: Record<string, unknown>[], item: Json): boolean {
  const before = messages.at(-1);
  const assistant = before?.["role"] === "assistant" ? before : undefined;
  const join = (member: string, value: unknown): void => {
    if (assistant !== undefined && (assistant[member] === undefined || assistant[member] === null))
      assistant[member] = value;
    else messages.push({ role: "assistant", [member]: value });
  };
  switch (item["type"]) {
    case "function_call": {
      const { call_id: id, name, arguments: args, namespace } = item;
      if (typeof namespace === "string") return false;
      const call = { id, function: { name, arguments: args }, type: "function" };
      if (Array.isArray(assistant?.["tool_calls"])) assistant["tool_calls"].push(call);
      else if (assistant !== undefined) assistant["tool_calls"] = [call];
      else messages.push({ role: "assistant", tool_calls: [call] });
      return true;
    }
    case "reasoning": {
      const thoughts = textOf(item["content"]) ?? textOf(item["summary"]) ?? "";
      if (typeof item["encrypted_content"] === "string") return false;
      join("reasoning", thoughts);
      return true;
    }
    case "function_call_output":
      messages.push({ role: "tool", content: item["output"], tool_call_id: item["call_id"] });
      return true;
    default:
      return addMessage(messages, item, join);
  }
}

function addMessage(
  messages: Record<string, unknown>[],
  item: Json,
  join: (member: string, value: unknown) => void,
): boolean {
  const { role, content } = item;
  if (typeof role !== "string") return false;
  if (role === "assistant") {
    const text = typeof content === "string" ? content : textOf(content);
    if (text !== undefined) {
      join("content", text);
      return true;
    }
  }
  messages.push({ ...item });
  return true;
}

/** The text of a list's first part. */
function textOf(content: unknown): string | undefined {
  const first: unknown = Array.isArray(content) ? content[0] : undefined;
  return isJsonObject(first) && typeof first["text"] === "string" ? first["text"] : undefined;
}
