import type { ChatRequest } from "../core/chat-request.ts";
import type { EngineKind } from "../core/engine-kind.ts";
import { findEngine } from "../engines/registry.ts";
import { BYTE_BOS, BYTE_CHAT_TEMPLATE, BYTE_EOS } from "../prompt/byte-template.ts";
import { type ChatRenderer, createChatRenderer, type RenderedPrompt } from "../prompt/chat-template.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Text as token ids: its UTF-8 bytes, id = byte. */
export function encodeText(text: string): number[] {
  return [...encoder.encode(text)];
}

/** Token ids as text; a broken character becomes U+FFFD. */
export function decodeIds(ids: readonly number[]): string {
  return decoder.decode(Uint8Array.from(ids));
}

const template = { template: BYTE_CHAT_TEMPLATE, bosToken: BYTE_BOS, eosToken: BYTE_EOS };

/** The built-in template as each engine renders it. */
const RENDERERS = {
  vllm: rendererAs("vllm"),
  sglang: rendererAs("sglang"),
  llama_cpp: rendererAs("llama_cpp"),
};

function rendererAs(kind: EngineKind): ChatRenderer {
  const { chat, traits } = findEngine(kind);
  return createChatRenderer({
    ...template,
    ...(chat === undefined ? {} : { dialect: chat }),
    ...(traits.textPartsJoin === undefined ? {} : { textJoin: traits.textPartsJoin }),
  });
}

/**
 * The prompt of a chat: its bytes are the token ids. It is rendered by the very code that the router renders with: what a
 * simulator proves is how cache and routing behave, not that a template is understood.
 * @throws CgnError TEMPLATE_FAILED
 */
export function renderChat(kind: keyof typeof RENDERERS, chat: ChatRequest): RenderedPrompt {
  return RENDERERS[kind].render(chat);
}
