import type { RenderedPrompt } from "./chat-template.ts";
import type { TextNormalizer } from "./text-normalizer.ts";
import type { Vocabulary } from "./vocabulary.ts";

/** What a model does to the prompt of `/v1/completions`. */
export interface CompletionPromptOptions {
  /** Needed for prompts of token ids. */
  readonly vocabulary?: Vocabulary | undefined;
  readonly normalize?: TextNormalizer | undefined;
  /**
   * Text that the tokenizer puts before a text prompt. vLLM, SGLang and llama.cpp tokenise completions with special
   * tokens added (`add_special_tokens` is true by default there, unlike in chats), so a model with a bos token that its
   * tokenizer adds (`add_bos_token`, a post-processor template) starts with it. Token prompts get nothing.
   */
  readonly bos?: string;
}

/**
 * The bytes that stand for the `prompt` of a completion request: a text, or a list of token ids; a list with one of them is
 * that one. Several prompts in one request have no single prefix.
 */
export function completionPrompt(prompt: unknown, options: CompletionPromptOptions): RenderedPrompt {
  if (typeof prompt === "string") {
    const text = (options.bos ?? "") + prompt;
    return { bytes: new TextEncoder().encode(options.normalize?.(text) ?? text) };
  }
  if (!Array.isArray(prompt)) return { reason: "prompt is neither text nor a list" };
  const list = prompt as readonly unknown[];
  if (typeof list[0] !== "number") {
    if (list.length === 1) return completionPrompt(list[0], options);
    return { reason: list.length === 0 ? "prompt is an empty list" : "the request has several prompts" };
  }
  return tokenPrompt(list, options.vocabulary);
}

function tokenPrompt(ids: readonly unknown[], vocabulary: Vocabulary | undefined): RenderedPrompt {
  if (vocabulary === undefined)
    return { reason: "prompt is a list of token ids, and the model's vocabulary is not known" };
  if (!ids.every((id) => typeof id === "number")) return { reason: "prompt mixes token ids with something else" };
  const bytes = vocabulary.decode(ids as readonly number[]);
  return bytes === undefined ? { reason: "prompt has a token id that the vocabulary lacks" } : { bytes };
}
