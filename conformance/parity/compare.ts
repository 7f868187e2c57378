import { createHash } from "node:crypto";
import { PLAIN_DIALECT } from "../../src/core/chat-dialect.ts";
import type { ChatRequest, Prepared } from "../../src/core/chat-request.ts";
import type { Engine, ToldTemplate } from "../../src/engines/engine.ts";
import { createFastChatRenderer } from "../../src/prompt/chat-skeletons.ts";
import { type ChatRendererOptions, createChatRenderer, templateFacts } from "../../src/prompt/chat-template.ts";
import type { ParityCase } from "./random-bodies.ts";

/** What we make of a body: the prompt, or why there is none. */
export type Ours = { readonly text: string } | { readonly none: string };

export interface OursOptions {
  readonly engine: Engine;
  readonly template: string;
  /** What the engine tells of its template, where it does. */
  readonly told: ToldTemplate | undefined;
  readonly bosToken: string;
  readonly eosToken: string;
  readonly specialTokens?: Readonly<Record<string, string>>;
  readonly now: Date;
}

/** Renders bodies as the router does: `whole` by the interpreter, `fast` by what is compiled where it is. */
export function oursFor(options: OursOptions): { whole(one: ParityCase): Ours; fast(one: ParityCase): Ours } {
  const { engine, told, now, template, ...tokens } = options;
  const dialect = { ...PLAIN_DIALECT, ...engine.chat, ...told?.chat };
  const join = engine.traits.textPartsJoin;
  const chat: ChatRendererOptions = {
    ...tokens,
    template,
    now: () => now,
    dialect,
    ...(join === undefined ? {} : { textJoin: join }),
  };
  const facts = templateFacts(chat);
  const requestOf = ({ api, body }: ParityCase): Prepared<ChatRequest> => {
    if (api === "chat") return { value: body };
    const convert = api === "messages" ? dialect.fromMessages : dialect.fromResponses;
    return convert?.(body, facts) ?? { reason: "no conversion is known" };
  };
  const by =
    (renderer: ReturnType<typeof createChatRenderer>) =>
    (one: ParityCase): Ours => {
      try {
        const request = requestOf(one);
        const prompt = "reason" in request ? request : renderer.render(request.value);
        return "bytes" in prompt ? { text: decoder.decode(prompt.bytes) } : { none: prompt.reason };
      } catch (e) {
        return { none: (e as Error).message };
      }
    };
  return { whole: by(createChatRenderer(chat)), fast: by(createFastChatRenderer(chat)) };
}

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** A prompt's name in a recording: short, and another one for each prompt. */
export function promptHash(text: string): string {
  return createHash("sha256").update(text).digest("base64url").slice(0, 12);
}
