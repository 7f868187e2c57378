import type { TemplateFacts } from "../../core/chat-dialect.ts";
import { type ChatRequest, isJsonObject, type Json, type Prepared } from "../../core/chat-request.ts";

const HEADER = "x-anthropic-billing-header";

/**
 * The chat that vLLM 0.32 makes of a body of `/v1/messages`: entrypoints/anthropic/serving.py, `to_chat_completion_request()`.
 * Images stay parts that cannot be rendered.
 */
export function chatOfMessages(body: Json, facts: TemplateFacts): Prepared<ChatRequest> {
  const given = body["messages"];
  if (!Array.isArray(given) || !given.every(isJsonObject)) return { reason: "messages is no list of objects" };
  const merge = facts.refuses(INLINE_SYSTEM);
  const system = systemText(body["system"], merge ? given : []);
  const messages: Json[] = system === undefined ? [] : [{ role: "system", content: system }];
  for (const message of given) {
    if (message["role"] !== "system") messages.push(...messageOf(message));
    else if (!merge) {
      const text = inlineText(message["content"]);
      if (text !== "") messages.push({ role: "system", content: text });
    }
  }
  const tools = toolsOf(body["tools"], given);
  if (tools !== undefined && "reason" in tools) return tools;
  return {
    value: {
      messages,
      ...(tools === undefined ? {} : { tools: tools.value }),
      ...(isJsonObject(body["chat_template_kwargs"]) ? { chat_template_kwargs: body["chat_template_kwargs"] } : {}),
      ...effortOf(body, facts),
    },
  };
}

/** vLLM tries its template with this chat at its start: one that refuses it gets all system texts in one. */
const INLINE_SYSTEM: readonly Json[] = ["system", "user", "system", "user"].map((role) => ({ role, content: "t" }));

function systemText(system: unknown, inline: readonly Json[]): string | undefined {
  const parts: string[] = [];
  if (typeof system === "string" && system !== "") parts.push(system);
  if (Array.isArray(system))
    for (const block of system) if (isText(block) && !block.text.startsWith(HEADER)) parts.push(block.text);
  for (const { role, content } of inline) if (role === "system") parts.push(inlineText(content));
  const kept = parts.filter((part) => part !== "");
  return kept.length === 0 ? undefined : kept.join("");
}

function inlineText(content: unknown): string {
  if (typeof content === "string") return content.startsWith(HEADER) ? "" : content;
  if (!Array.isArray(content)) return "";
  return content.flatMap((block) => (isText(block) && !block.text.startsWith(HEADER) ? [block.text] : [])).join("");
}

/** One message becomes several where it brings tools' results: they come before it. */
function messageOf({ role, content }: Json): readonly Json[] {
  if (!Array.isArray(content)) return [{ role, content }];
  const parts: Json[] = [];
  const calls: Json[] = [];
  const thoughts: string[] = [];
  const results: Json[] = [];
  for (const block of content) {
    if (!isJsonObject(block)) continue;
    const { type } = block;
    if (isText(block)) parts.push({ type: "text", text: block.text });
    else if (type === "image") parts.push({ type: "image_url" });
    else if (type === "thinking" && typeof block["thinking"] === "string") thoughts.push(block["thinking"]);
    else if (type === "tool_use") calls.push(callOf(block));
    else if (type === "tool_result" && role === "user") results.push(...resultsOf(block));
    else if (type === "tool_result") parts.push(resultText(block["content"]));
  }
  const [only] = parts;
  const said =
    parts.length === 0 ? {} : { content: parts.length === 1 && only?.["type"] === "text" ? only["text"] : parts };
  const message = {
    role,
    ...(thoughts.length === 0 ? {} : { reasoning: thoughts.join("") }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
    ...said,
  };
  return role === "user" && parts.length === 0 ? results : [...results, message];
}

function callOf({ id, name, input }: Json): Json {
  const given = isJsonObject(input) ? input : {};
  return { id: id ?? "", type: "function", function: { name: name ?? "", arguments: given } };
}

function resultsOf({ tool_use_id: id, content }: Json): readonly Json[] {
  const blocks = Array.isArray(content) ? content.filter(isJsonObject) : [];
  const texts = blocks.flatMap(({ type, text }) => (type === "text" ? [typeof text === "string" ? text : ""] : []));
  const text = typeof content === "string" ? content : texts.join("\n");
  const result = { role: "tool", tool_call_id: id ?? "", content: text };
  const images = blocks.filter(({ type }) => type === "image");
  return images.length === 0
    ? [result]
    : [result, { role: "user", content: images.map(() => ({ type: "image_url" })) }];
}

/** A result in an assistant's message. One that is a list is spelled as Python spells it, which is not followed. */
function resultText(content: unknown): Json {
  const text = content ?? "";
  return typeof text === "string" ? { type: "text", text: `Tool result: ${text}` } : { type: "tool_result" };
}

function toolsOf(tools: unknown, messages: readonly Json[]): Prepared<readonly unknown[]> | undefined {
  const changes = messages.some(
    ({ content }) =>
      Array.isArray(content) &&
      content.some((block) => isJsonObject(block) && /^tool_(addition|removal)$/.test(String(block["type"]))),
  );
  if (changes) return { reason: "its messages add or remove tools" };
  if (!Array.isArray(tools)) return undefined;
  return {
    value: tools.map((tool: unknown) => {
      if (!isJsonObject(tool)) return tool;
      const { name, description, input_schema: schema, strict, defer_loading } = tool;
      const parameters = isJsonObject(schema) && !("type" in schema) ? { ...schema, type: "object" } : schema;
      return { type: "function", function: { name, description, parameters, strict, defer_loading } };
    }),
  };
}

function effortOf(body: Json, facts: TemplateFacts): ChatRequest {
  const { thinking, output_config: output } = body;
  // What `disabled` becomes was tried out at the engine's start: `none`, or `low` where the template makes nothing of it.
  if (isJsonObject(thinking) && thinking["type"] === "disabled") return { reasoning_effort: disabledEffort(facts) };
  const effort = isJsonObject(output) ? output["effort"] : undefined;
  return effort === undefined || effort === null ? {} : { reasoning_effort: effort };
}

const EFFORTS = ["low", "medium", "high", "xhigh", "max"];

function disabledEffort({ promptFor }: TemplateFacts): string {
  const none = promptFor("none");
  return none === undefined || EFFORTS.some((effort) => promptFor(effort) === none) ? "low" : "none";
}

function isText(block: unknown): block is { readonly type: "text"; readonly text: string } {
  return isJsonObject(block) && block["type"] === "text" && typeof block["text"] === "string" && block["text"] !== "";
}
