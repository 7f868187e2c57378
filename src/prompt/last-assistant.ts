import type { ChatDialect } from "../core/chat-dialect.ts";
import type { Json, Prepared } from "../core/chat-request.ts";
import { finalText } from "./chat-messages.ts";

/** What the template is given, and what follows its text. */
export interface LastTurn {
  readonly messages: readonly Json[];
  readonly addGenerationPrompt: boolean;
  /** Text behind what the template makes. */
  readonly suffix: string;
  /** The template's text is cut behind the last message's content (`continue_final_message` of transformers). */
  readonly cut: boolean;
}

interface Asked {
  /** `continue_final_message` */
  readonly proceed: boolean;
  /** `add_generation_prompt` where it is written. */
  readonly generate: boolean | undefined;
  /** The last message's content came in several parts. */
  readonly parts: boolean;
}

/** How a chat ends: by what the request asks for, and by what its engine makes of an assistant's last message. */
export function lastTurn(messages: readonly Json[], dialect: ChatDialect, asked: Asked): Prepared<LastTurn> {
  const { proceed, generate } = asked;
  const plain = { messages, addGenerationPrompt: generate ?? !proceed, suffix: "", cut: proceed };
  const last = messages.at(-1);
  if (dialect.lastAssistant === "continued") return continued(messages, plain, asked);
  if (dialect.lastAssistant === "kept" || last?.["role"] !== "assistant") return { value: plain };
  const text = last["content"];
  if (typeof text !== "string" || (generate !== undefined && !proceed)) return { value: { ...plain, cut: false } };
  const rest = messages.slice(0, -1);
  if (proceed) {
    return { value: { messages: rest, addGenerationPrompt: generate !== false, suffix: text, cut: false } };
  }
  return { value: { ...plain, messages: [...rest, { role: "user", content: text }] } };
}

/**
 * llama-server (xllamacpp 2026.10, `/apply-template`): the chat without the message, the assistant's beginning, and the text as
 * it is. Without text there is no beginning either.
 */
function continued(
  messages: readonly Json[],
  plain: LastTurn,
  { proceed, generate, parts }: Asked,
): Prepared<LastTurn> {
  if (proceed && generate !== false) return { reason: "the engine refuses to begin a turn and continue one" };
  const last = messages.at(-1);
  const calls = last?.["tool_calls"];
  if (last?.["role"] !== "assistant" || (Array.isArray(calls) && calls.length > 0)) {
    return proceed ? { reason: "there is no assistant's message to continue" } : { value: plain };
  }
  const rest = messages.slice(0, -1);
  if (rest.at(-1)?.["role"] === "assistant")
    return { reason: "the engine refuses two assistant's messages at the end" };
  const text = finalText(messages) ?? "";
  if (parts) return { reason: "the last message to continue has several parts" };
  if ("reasoning_content" in last) return { reason: "the last message to continue has reasoning" };
  return { value: { messages: rest, addGenerationPrompt: text !== "", suffix: text, cut: false } };
}
