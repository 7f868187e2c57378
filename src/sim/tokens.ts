import { Template } from "@huggingface/jinja";
import { BYTE_BOS, BYTE_CHAT_TEMPLATE, BYTE_EOS } from "../prompt/byte-template.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();
const template = new Template(BYTE_CHAT_TEMPLATE);

/** Text as token ids: its UTF-8 bytes, id = byte. */
export function encodeText(text: string): number[] {
  return [...encoder.encode(text)];
}

/** Token ids as text; a broken character becomes U+FFFD. */
export function decodeIds(ids: readonly number[]): string {
  return decoder.decode(Uint8Array.from(ids));
}

/** What of a chat request decides its prompt. */
export interface ChatPrompt {
  readonly messages: readonly Readonly<Record<string, unknown>>[];
  readonly tools?: readonly unknown[];
  /** Default true. */
  readonly addGenerationPrompt?: boolean;
}

/** The prompt of a chat as text: parts of a content list joined by line ends, as vLLM does for such templates. */
export function renderChat(chat: ChatPrompt): string {
  const messages = chat.messages.map((message) => ({ ...message, content: flatten(message["content"]) }));
  return template.render({
    messages,
    tools: chat.tools === undefined || chat.tools.length === 0 ? null : chat.tools,
    add_generation_prompt: chat.addGenerationPrompt ?? true,
    bos_token: BYTE_BOS,
    eos_token: BYTE_EOS,
  });
}

function flatten(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content
    .map((part: unknown) => (typeof part === "object" && part !== null && "text" in part ? String(part.text) : ""))
    .join("\n");
}
