import type { ChatDialect, TemplateFacts } from "../../core/chat-dialect.ts";
import { type ChatRequest, isJsonObject, type Json, type Prepared } from "../../core/chat-request.ts";
import { llamaChatOfMessages } from "./llama-cpp-messages.ts";
import { llamaChatOfResponses } from "./llama-cpp-responses.ts";

/** What llama-server found out about a template by trying it (`chat_template_caps` of `/props`). */
export type TemplateCaps = Readonly<Record<string, unknown>>;

/**
 * What llama-server makes of a chat: common/chat.cpp (`common_chat_msgs_parse_oaicompat()`, `to_json_oaicompat()`,
 * `common_chat_templates_apply_jinja()`) and tools/server/server-common.cpp (`oaicompat_chat_params_parse()`), build 11434.
 * `--no-prefill-assistant`, `--reasoning off` and `--chat-template-kwargs` are not followed.
 */
export function llamaChat(caps: TemplateCaps): ChatDialect {
  return {
    lastAssistant: "continued",
    // common/jinja: isspace() of each byte.
    asciiBlanks: true,
    prepare: (request, facts) => prepareChat(request, facts, caps),
    fromMessages: llamaChatOfMessages,
    fromResponses: llamaChatOfResponses,
  };
}

function prepareChat(
  request: ChatRequest,
  { template, now }: TemplateFacts,
  caps: TemplateCaps,
): Prepared<ChatRequest> {
  const { messages, tools, chat_template_kwargs: kwargs, reasoning_effort: effort, ...rest } = request;
  if (!Array.isArray(messages) || !messages.every(isJsonObject)) return { reason: "messages is no list of objects" };
  const joined = caps["supports_typed_content"] !== true;
  const list: Json[] = [];
  for (const message of messages) {
    const made = messageOf(message, joined);
    if ("reason" in made) return made;
    const developer = message["role"] === "developer" && !template.includes("<|channel|>");
    list.push(developer ? { ...made.value, role: "system" } : made.value);
  }
  const adjusted = adjust(list, request, template);
  if ("reason" in adjusted) return adjusted;
  const { add_generation_prompt: generate, ...others } = isJsonObject(kwargs) ? kwargs : ({} as Json);
  const given =
    rest.add_generation_prompt === false && generate !== undefined
      ? { ...others, add_generation_prompt: generate }
      : others;
  return {
    value: {
      ...rest,
      messages: caps["supports_system_role"] === false ? withoutSystem(adjusted.value) : adjusted.value,
      ...(Array.isArray(tools) ? { tools: tools.map(toolOf) } : {}),
      chat_template_kwargs: { enable_thinking: true, ...dates(now), ...given, ...effortOf(effort, given) },
    },
  };
}

function effortOf(effort: unknown, given: Json): Json {
  if (effort === "none") return { enable_thinking: false, reasoning_effort: undefined };
  const asked = typeof effort === "string" && effort !== "" ? effort : given["reasoning_effort"];
  return typeof asked === "string" ? { reasoning_effort: asked, reasoning_strength: asked } : {};
}

/** Templates may print the date by these names. */
function dates(now: TemplateFacts["now"]): Json {
  return now === undefined ? {} : { datetime: now("%b %d %Y"), date_string: now("%d %b %Y") };
}

/** A message goes through a type of its own: what it does not know is dropped. */
function messageOf(message: Json, joined: boolean): Prepared<Json> {
  const { role, content, name, reasoning_content: thoughts, tool_call_id: id, tool_calls: calls } = message;
  const contents = contentOf(content, joined);
  if ("reason" in contents) return contents;
  return {
    value: {
      role,
      content: contents.value,
      ...(typeof thoughts === "string" && thoughts !== "" ? { reasoning_content: thoughts } : {}),
      ...(typeof name === "string" && name !== "" ? { name } : {}),
      ...(typeof id === "string" && id !== "" ? { tool_call_id: id } : {}),
      ...(Array.isArray(calls) && calls.length > 0 ? { tool_calls: calls.map(callOf) } : {}),
    },
  };
}

/** Parts are joined by line ends, but for those before which nothing stands yet. */
function contentOf(content: unknown, joined: boolean): Prepared<unknown> {
  if (content === undefined || content === null) return { value: "" };
  if (!Array.isArray(content)) return { value: content };
  let text = "";
  const parts: Json[] = [];
  for (const part of content as unknown[]) {
    if (!isJsonObject(part) || part["type"] !== "text" || typeof part["text"] !== "string") {
      return {
        reason: `a message has a part of type ${isJsonObject(part) ? String(part["type"]) : typeof part}, which is no text`,
      };
    }
    text += (text === "" ? "" : "\n") + part["text"];
    parts.push({ type: "text", text: part["text"] });
  }
  return { value: joined || parts.length === 0 ? text : parts };
}

function callOf(call: unknown): unknown {
  if (!isJsonObject(call) || !isJsonObject(call["function"])) return call;
  const { name, arguments: args } = call["function"];
  const id = call["id"];
  return {
    type: "function",
    function: { name, arguments: typeof args === "string" ? args : JSON.stringify(args) },
    ...(typeof id === "string" && id !== "" ? { id } : {}),
  };
}

function toolOf(tool: unknown): unknown {
  if (!isJsonObject(tool) || !isJsonObject(tool["function"])) return tool;
  const { name, description = "", parameters = {} } = tool["function"];
  return { type: "function", function: { name, description, parameters } };
}

/** A template that knows no system role gets that text before the next message. */
function withoutSystem(messages: readonly Json[]): readonly Json[] {
  const [first, second, ...others] = messages;
  if (first?.["role"] !== "system") return messages;
  if (second === undefined) return [];
  return [{ ...second, content: `${String(first["content"])}\n${String(second["content"])}` }, ...others];
}

/** For some families the server writes messages anew (common/parsers). gpt-oss is followed; chats of others that need it are not known. */
function adjust(messages: readonly Json[], request: ChatRequest, template: string): Prepared<readonly Json[]> {
  if (messages.at(-1)?.["role"] === "assistant" && THOUGHTS.test(template)) {
    return { reason: "the engine goes on with an answer behind empty thoughts of its own" };
  }
  if (template.includes("<|channel|>")) return adjustHarmony(messages, request);
  const special = SPECIAL.find(({ marks }) => marks(template));
  const touched = messages.some(
    (message) => "reasoning_content" in message || "tool_calls" in message || message["role"] === "tool",
  );
  return special !== undefined && touched
    ? { reason: `the engine rewrites such chats for ${special.family}` }
    : { value: messages };
}

/** Marks of thoughts in templates. */
const THOUGHTS = /<think>|\[THINK\]|<\|START_THINKING\|>|<\|inner_prefix\|>|<seed:think>/;

const SPECIAL: readonly { readonly family: string; marks(template: string): boolean }[] = [
  {
    family: "Ministral 3",
    marks: (t) => ["[SYSTEM_PROMPT]", "[TOOL_CALLS]", "[ARGS]"].every((m) => t.includes(m)) && !t.includes("[CALL_ID]"),
  },
  { family: "Gemma 4", marks: (t) => t.includes("'<|tool_call>call:'") && !t.includes("{#- OpenAI Chat Completions:") },
  { family: "DeepSeek V3.2", marks: (t) => t.includes("dsml_token") && t.includes("DSML") },
  { family: "LFM2", marks: (t) => t.includes("List of tools: [") || t.includes("<|tool_list_start|>") },
];

function adjustHarmony(messages: readonly Json[], request: ChatRequest): Prepared<readonly Json[]> {
  if (messages.at(-1)?.["role"] === "assistant" || request.add_generation_prompt === false) {
    return { reason: "the engine writes the end of such chats itself" };
  }
  return {
    value: messages.map((message) => {
      const thoughts = message["reasoning_content"];
      if (thoughts === undefined) return message;
      const { content, ...rest } = message;
      const called = "tool_calls" in message;
      return { ...rest, ...(called ? {} : { content }), thinking: thoughts };
    }),
  };
}
