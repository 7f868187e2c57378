import type { ChatDialect, TemplateFacts } from "../../core/chat-dialect.ts";
import { type ChatRequest, isJsonObject, type Json, type Prepared } from "../../core/chat-request.ts";
import { parseExact } from "../../core/exact-numbers.ts";
import { chatOfMessages } from "./vllm-messages.ts";
import { chatOfResponses } from "./vllm-responses.ts";

/** Claude Code writes it before its system prompt, another one for each request; vLLM takes the line away. */
export const BILLING_HEADER = "x-anthropic-billing-header";

/**
 * What vLLM 0.32 makes of a chat before its template sees it: renderers/chat_utils.py (`_parse_chat_message_content()`,
 * `_postprocess_messages()`), renderers/hf.py (`safe_apply_chat_template()`), and the request's own types in
 * entrypoints/openai/chat_completion/protocol.py.
 */
export const VLLM_CHAT: ChatDialect = {
  contents: "wrapped",
  lastAssistant: "kept",
  prepare: prepareChat,
  watched: [BILLING_HEADER],
  fromMessages: chatOfMessages,
  fromResponses: chatOfResponses,
};

function prepareChat(request: ChatRequest, { template }: TemplateFacts): Prepared<ChatRequest> {
  const { messages, tools } = request;
  if (!Array.isArray(messages)) return { reason: "messages is no list" };
  const list: Json[] = [];
  for (const message of messages as unknown[]) {
    if (!isJsonObject(message)) return { reason: "a message is no object" };
    list.push(messageOf(message));
  }
  const { chat_template_kwargs: _, reasoning_effort: __, documents: ___, ...rest } = request;
  return {
    value: {
      ...rest,
      messages: developersKnown(list, template),
      ...(Array.isArray(tools) ? { tools: tools.map(toolOf) } : {}),
      chat_template_kwargs: templateArguments(request),
    },
  };
}

/** Members that its message types know; the rest is dropped. */
function messageOf(message: Json): Json {
  const { role, content, name, task } = message;
  const known: Record<string, unknown> = { role, content: role === "system" ? withoutHeader(content) : content };
  if (role === "assistant") {
    const calls = message["tool_calls"];
    if (Array.isArray(calls) && calls.length > 0) known["tool_calls"] = calls.map(callOf);
    const thoughts = message["reasoning"] ?? message["reasoning_content"];
    if (thoughts !== undefined && thoughts !== null)
      Object.assign(known, { reasoning: thoughts, reasoning_content: thoughts });
  } else if (role === "tool" && "tool_call_id" in message) known["tool_call_id"] = message["tool_call_id"];
  if (typeof name === "string") known["name"] = name;
  if (typeof task === "string") known["task"] = task;
  if (role === "developer") known["tools"] = message["tools"] ?? null;
  return known;
}

/** Arguments that are no JSON object become an empty one. */
function callOf(call: unknown): unknown {
  if (!isJsonObject(call) || !isJsonObject(call["function"])) return call;
  const { id, function: called, type } = call;
  const { name, arguments: written } = called as Json;
  return { id, function: { arguments: argumentsOf(written), name }, type };
}

function argumentsOf(written: unknown): Json {
  if (isJsonObject(written)) return written;
  if (typeof written !== "string") return {};
  try {
    const parsed = parseExact(written);
    return isJsonObject(parsed) ? parsed : {};
  } catch {
    return {};
  }
}

/** A tool goes through types of its own: members in their order, null where one is missing, nothing that they do not know. */
function toolOf(tool: unknown): unknown {
  if (!isJsonObject(tool) || !isJsonObject(tool["function"])) return tool;
  const { name, description, parameters, strict, defer_loading: inner } = tool["function"];
  const outer = tool["defer_loading"];
  const deferred = inner ?? outer;
  return {
    type: "function",
    function: {
      name,
      description: description ?? null,
      parameters: parameters ?? null,
      ...(strict === undefined || strict === null ? {} : { strict }),
      ...(deferred === undefined || deferred === null ? {} : { defer_loading: deferred }),
    },
    ...(outer === undefined || outer === null ? {} : { defer_loading: outer }),
  };
}

/** What a request says beside `chat_template_kwargs` wins over them, but for `null` and `auto`. */
function templateArguments(request: ChatRequest): Json {
  const own = isJsonObject(request.chat_template_kwargs) ? request.chat_template_kwargs : {};
  const { add_generation_prompt: _, continue_final_message: __, ...kept } = own;
  const effort = request.reasoning_effort;
  const asked = effort !== undefined && effort !== null;
  return {
    ...kept,
    ...(Array.isArray(request.documents) ? { documents: request.documents } : {}),
    ...(asked && effort !== "auto" ? { reasoning_effort: effort } : {}),
    ...(asked && !("enable_thinking" in own) ? { enable_thinking: effort !== "none" } : {}),
  };
}

/** Where a template does not know the role `developer`, it is `system`'s, and all of those become one at the beginning. */
function developersKnown(messages: readonly Json[], template: string): readonly Json[] {
  if (!messages.some(({ role }) => role === "developer") || /"developer"|'developer'/.test(template)) return messages;
  const isSystem = ({ role }: Json): boolean => role === "developer" || role === "system";
  const systems = messages.filter(isSystem);
  if (systems.length === 1 && isSystem(messages[0]!)) {
    const { tools: _, ...first } = messages[0]!;
    return [{ ...first, role: "system" }, ...messages.slice(1)];
  }
  const content = systems.map(({ content }) => textOf(content)).filter((text) => text !== "");
  return [{ role: "system", content: content.join("\n\n") }, ...messages.filter((message) => !isSystem(message))];
}

function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map((part) => (isJsonObject(part) ? String(part["text"] ?? "") : String(part))).join("\n");
}

function withoutHeader(content: unknown): unknown {
  if (typeof content === "string") {
    const kept = cutHeader(content);
    return kept === undefined ? [] : kept;
  }
  if (!Array.isArray(content)) return content;
  return content.flatMap((part: unknown) => {
    const text = isJsonObject(part) && part["type"] === "text" ? part["text"] : part;
    if (typeof text !== "string") return [part];
    const kept = cutHeader(text);
    if (kept === undefined) return [];
    return [isJsonObject(part) ? { ...part, text: kept } : kept];
  });
}

/** @returns undefined where nothing is left */
function cutHeader(text: string): string | undefined {
  if (!text.startsWith(BILLING_HEADER)) return text;
  const end = text.indexOf("\n");
  return end < 0 || end === text.length - 1 ? undefined : text.slice(end + 1);
}
