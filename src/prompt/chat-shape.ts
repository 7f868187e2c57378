import { type ChatRequest, isJsonObject, type Json } from "../core/chat-request.ts";
import { hasOddNumbers } from "../core/exact-numbers.ts";

/**
 * A chat with its texts taken out: chats of one shape differ in nothing but these. A template that does not look into texts
 * puts the same things around them.
 */
export interface ChatShape {
  /** Equal for chats of one shape: roles, members and their order, which texts are empty, tools, what else is asked for. */
  readonly key: string;
  /** The texts, in the order of the request. */
  readonly texts: readonly string[];
}

/** Longer chats, and requests with more about tools, are left to the template: each would have a shape of its own. */
const MAX_MESSAGES = 256;
const MAX_EXTRA_CHARS = 256 * 1024;

/** Find a chat's shape; undefined for one with something that a shape does not hold. */
export function shapeOf(request: ChatRequest): ChatShape | undefined {
  const { messages, chat_template: own, continue_final_message: proceeds } = request;
  if (own != null || proceeds != null) return undefined;
  if (!Array.isArray(messages) || messages.length === 0 || messages.length > MAX_MESSAGES) return undefined;
  const texts: string[] = [];
  let key = extraOf(request);
  if (key === undefined) return undefined;
  for (const message of messages as unknown[]) {
    const part = shapeOfMessage(message, texts);
    if (part === undefined) return undefined;
    key += part;
  }
  return { key, texts };
}

/** What is no message, spelled out. */
function extraOf(request: ChatRequest): string | undefined {
  const {
    tools,
    documents,
    add_generation_prompt: generate,
    chat_template_kwargs: kwargs,
    reasoning_effort: effort,
  } = request;
  if (tools == null && documents == null && generate == null && kwargs == null && effort == null) return "";
  const text = JSON.stringify([tools, documents, generate, kwargs, effort]);
  return text.length > MAX_EXTRA_CHARS ? undefined : `${text}\n`;
}

function shapeOfMessage(message: unknown, texts: string[]): string | undefined {
  if (!isJsonObject(message)) return undefined;
  let key = "";
  for (const member in message) {
    const value = message[member];
    const part =
      member === "role"
        ? roleOf(value)
        : member === "content"
          ? contentOf(value, texts)
          : otherOf(member, value, texts);
    if (part === undefined) return undefined;
    key += part;
  }
  return `${key}\n`;
}

const roleOf = (role: unknown): string | undefined => (typeof role === "string" ? `r:${role}\t` : undefined);

/** `t` stands for a text, `e` for an empty one. */
function textOf(text: string, texts: string[]): string {
  if (text === "") return "e";
  texts.push(text);
  return "t";
}

function contentOf(content: unknown, texts: string[]): string | undefined {
  if (typeof content === "string") return `c${textOf(content, texts)}`;
  if (content === null) return "cn";
  if (!Array.isArray(content)) return undefined;
  let key = "c[";
  for (const part of content as unknown[]) {
    if (!isTextPart(part)) return undefined;
    key += textOf(part.text, texts);
  }
  return `${key}]`;
}

function isTextPart(part: unknown): part is { readonly type: "text"; readonly text: string } {
  return (
    isJsonObject(part) && part["type"] === "text" && typeof part["text"] === "string" && Object.keys(part).length === 2
  );
}

/** Nothing in it is spelled otherwise in JSON. */
const PLAIN_ID = /^[\w.:-]*$/;

const TEXT_MEMBERS = new Set(["reasoning_content", "reasoning", "tool_call_id", "name"]);

function otherOf(member: string, value: unknown, texts: string[]): string | undefined {
  if (member === "tool_call_id" && !(typeof value === "string" && PLAIN_ID.test(value))) return undefined;
  if (TEXT_MEMBERS.has(member)) return typeof value === "string" ? `${member}:${textOf(value, texts)}` : undefined;
  if (member !== "tool_calls" || !Array.isArray(value)) return undefined;
  let key = "calls[";
  for (const call of value as unknown[]) {
    const part = isJsonObject(call) ? callOf(call, texts) : undefined;
    if (part === undefined) return undefined;
    key += `${part};`;
  }
  return `${key}]`;
}

function callOf(call: Json, texts: string[]): string | undefined {
  let key = "";
  for (const member in call) {
    const value = call[member];
    if (member === "id") {
      if (typeof value !== "string" || !PLAIN_ID.test(value)) return undefined;
      key += `id${textOf(value, texts)}`;
    } else if (member === "type" && value === "function") key += "f";
    else if (member === "function" && isJsonObject(value)) {
      const part = functionOf(value, texts);
      if (part === undefined) return undefined;
      key += part;
    } else return undefined;
  }
  return key;
}

function functionOf(called: Json, texts: string[]): string | undefined {
  let key = "{";
  for (const member in called) {
    const value = called[member];
    if (typeof value !== "string" || value === "") return undefined;
    if (member === "arguments" && (value[0] !== "{" || hasOddNumbers(value))) return undefined;
    if (member !== "arguments" && member !== "name") return undefined;
    texts.push(value);
    key += member[0];
  }
  return `${key}}`;
}

/** `id` names a tool call: templates may want nine letters of it. */
export type TextKind = "text" | "id" | "arguments";

/** The same request with other texts: `next` gives one for each text of the shape, in its order. */
export function withTexts(request: ChatRequest, next: (what: TextKind) => string): ChatRequest {
  const text = (value: unknown, kind: TextKind = "text"): unknown =>
    typeof value === "string" && value !== "" ? next(kind) : value;
  const fill = (message: Json): Json => {
    const made: Record<string, unknown> = {};
    for (const member in message) {
      const value = message[member];
      if (member === "content" && Array.isArray(value))
        made[member] = value.map((part: Json) => ({ ...part, text: text(part["text"]) }));
      else if (member === "content" || TEXT_MEMBERS.has(member))
        made[member] = text(value, member === "tool_call_id" ? "id" : "text");
      else if (member === "tool_calls") made[member] = (value as readonly Json[]).map(fillCall);
      else made[member] = value;
    }
    return made;
  };
  const fillCall = (call: Json): Json => {
    const made: Record<string, unknown> = {};
    for (const member in call) {
      const value = call[member];
      if (member === "id") made[member] = text(value, "id");
      else if (member === "function") made[member] = fillFunction(value as Json);
      else made[member] = value;
    }
    return made;
  };
  const fillFunction = (called: Json): Json => {
    const made: Record<string, unknown> = {};
    for (const member in called) made[member] = next(member === "arguments" ? "arguments" : "text");
    return made;
  };
  return { ...request, messages: (request.messages as readonly Json[]).map(fill) };
}
