import { type ChatDialect, PLAIN_DIALECT } from "../core/chat-dialect.ts";
import type { ChatRequest, Json, Prepared } from "../core/chat-request.ts";
import type { EngineKind } from "../core/engine-kind.ts";
import type { Engine } from "../engines/engine.ts";
import { findEngine } from "../engines/registry.ts";
import { createFastChatRenderer } from "../prompt/chat-skeletons.ts";
import { type RenderedPrompt, templateFacts } from "../prompt/chat-template.ts";
import { textNormalizer } from "../prompt/text-normalizer.ts";

/** APIs whose bodies become chats. */
export type ChatApi = "chat" | "messages" | "responses";

/** All that the prompts of one model's chats are made with: plain values, which another thread can be given. */
export interface ChatPromptSeed {
  readonly kind: EngineKind;
  readonly template: string;
  /** What the engine told of its template, as it told it. */
  readonly told?: string;
  readonly bosToken: string;
  readonly eosToken: string;
  readonly specialTokens: Readonly<Record<string, string>>;
  readonly textJoin?: string;
  /** The parts of `tokenizer.json` that say how text is normalised. */
  readonly tokenizer?: Json;
}

/** Makes prompts on the thread that asks. */
export interface ChatPrompts {
  /** The prompt, if it is known without running the template. @throws CgnError TEMPLATE_FAILED */
  quick(api: ChatApi, body: Json): RenderedPrompt | undefined;
  /** @throws CgnError TEMPLATE_FAILED */
  render(api: ChatApi, body: Json): RenderedPrompt;
}

/** What an engine makes of chats. */
export type ChatEngine = Pick<Engine, "probe" | "chat">;

/** @param engine - the one of `seed.kind`; tests pass their own */
export function createChatPrompts(
  seed: ChatPromptSeed,
  now: (() => Date) | undefined,
  engine: ChatEngine = findEngine(seed.kind),
): ChatPrompts {
  const { kind: _, told, tokenizer, ...chat } = seed;
  const own = told === undefined ? undefined : engine.probe.template?.parse(told)?.chat;
  const dialect: ChatDialect = { ...PLAIN_DIALECT, ...engine.chat, ...own };
  const normalize = tokenizer === undefined ? undefined : textNormalizer(tokenizer);
  const options = { ...chat, dialect, normalize, ...(now === undefined ? {} : { now }) };
  const fast = createFastChatRenderer(options);
  const facts = templateFacts(options);
  const requestOf = (api: ChatApi, body: Json): Prepared<ChatRequest> => {
    if (api === "chat") return { value: body };
    const convert = api === "messages" ? dialect.fromMessages : dialect.fromResponses;
    return convert?.(body, facts) ?? { reason: "how the engine makes a chat of this API is not known" };
  };
  return {
    quick(api, body) {
      const request = requestOf(api, body);
      return "reason" in request ? request : fast.quick(request.value);
    },
    render(api, body) {
      const request = requestOf(api, body);
      return "reason" in request ? request : fast.render(request.value);
    },
  };
}

/** Messages and tools of a body: how long its template runs, roughly. */
export function weightOf({ messages, input = messages, tools }: Json): number {
  return (Array.isArray(input) ? input.length : 0) + (Array.isArray(tools) ? tools.length : 0);
}

/** What of a `tokenizer.json` a seed has. */
export function normalizingParts(tokenizer: unknown): Json | undefined {
  if (typeof tokenizer !== "object" || tokenizer === null) return undefined;
  const { normalizer, pre_tokenizer, added_tokens } = tokenizer as Json;
  return { normalizer, pre_tokenizer, added_tokens };
}
