import type { ChatDialect } from "../core/chat-dialect.ts";
import type { Json, Prepared } from "../core/chat-request.ts";
import { parseExact } from "../core/exact-numbers.ts";

/** How a template takes `content`: a plain text, or the list of parts. */
export type ContentForm = "text" | "parts";

/**
 * Whether a template walks over a message's content parts. Engines decide likewise: vLLM 0.32 and SGLang 0.5 look in the
 * template's syntax tree for a loop over the content, and hand on parts only then.
 */
export function contentForm(template: string): ContentForm {
  const names = String.raw`(?:message|msg|m)(?:\.content|\[\s*['"]content['"]\s*\])`;
  const loop = new RegExp(
    String.raw`\{%-?\s*for\s+\w+\s+in\s+(?:${names}|content)\b|\{%-?\s*for\s+\w+\s+in\s+${names}`,
  );
  return loop.test(template) ? "parts" : "text";
}

/**
 * The messages of a request as the template gets them. Tool calls' `arguments`, JSON text on the wire, become objects
 * (Hugging Face's convention; vLLM and SGLang do so before they render). Images, audio and video cannot be rendered to bytes.
 * @param join - what stands between text parts when the template wants plain text: a line end in vLLM, a space in SGLang
 */
export function prepareMessages(
  messages: unknown,
  form: ContentForm,
  join: string,
  dialect: ChatDialect,
): Prepared<readonly Json[]> {
  if (!Array.isArray(messages)) return { reason: "messages is no list" };
  const prepared: Json[] = [];
  for (const message of messages as unknown[]) {
    if (!isObject(message)) return { reason: "a message is no object" };
    const content = prepareContent(message, form, join, dialect);
    if ("reason" in content) return content;
    const calls = message["tool_calls"];
    prepared.push({
      ...message,
      content: content.value,
      ...(Array.isArray(calls) && dialect.textArguments !== true ? { tool_calls: calls.map(prepareToolCall) } : {}),
    });
  }
  return { value: prepared };
}

function prepareContent(
  { role, content }: Json,
  form: ContentForm,
  join: string,
  { contents }: ChatDialect,
): Prepared<unknown> {
  const parts = contentParts(content);
  if ("reason" in parts) return parts;
  const list = parts.value.map((text) => ({ type: "text", text }));
  if (form === "parts" && contents === "parts") return { value: list.length > 0 ? list : [{ type: "text", text: "" }] };
  const wrapped = contents === "wrapped" && role !== "tool";
  if (form === "parts" && (wrapped || (contents !== "wrapped" && Array.isArray(content)))) return { value: list };
  // vLLM drops empty texts where it joins them, and keeps them where it hands on parts.
  const texts = contents === "wrapped" && form === "text" ? parts.value.filter((text) => text !== "") : parts.value;
  return { value: texts.join(join) };
}

/** The texts of a content: one of a string, none of null, one a part of a list. */
function contentParts(content: unknown): Prepared<readonly string[]> {
  if (content === null || content === undefined) return { value: [] };
  if (typeof content === "string") return { value: [content] };
  if (!Array.isArray(content)) return { reason: "a message's content is neither text nor a list of parts" };
  const texts: string[] = [];
  for (const part of content as unknown[]) {
    const text = typeof part === "string" ? part : isObject(part) ? part["text"] : undefined;
    if (typeof text !== "string") {
      const type = isObject(part) ? String(part["type"]) : typeof part;
      return { reason: `a message has a part of type ${type}, which is no text` };
    }
    texts.push(text);
  }
  return { value: texts };
}

/** Arguments that are no JSON stay the text that they are. */
function prepareToolCall(call: unknown): unknown {
  if (!isObject(call) || !isObject(call["function"])) return call;
  const args = call["function"]["arguments"];
  if (typeof args !== "string") return call;
  return { ...call, function: { ...call["function"], arguments: args === "" ? {} : parseOrKeep(args) } };
}

function parseOrKeep(text: string): unknown {
  try {
    return parseExact(text);
  } catch {
    return text;
  }
}

/** The last message's text, for `continue_final_message`; undefined when it has none. */
export function finalText(messages: readonly Json[]): string | undefined {
  const content = messages.at(-1)?.["content"];
  if (typeof content === "string") return content;
  const last: unknown = Array.isArray(content) ? content.at(-1) : undefined;
  return isObject(last) && typeof last["text"] === "string" ? last["text"] : undefined;
}

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
