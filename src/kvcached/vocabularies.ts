import { PLAIN_DIALECT } from "../core/chat-dialect.ts";
import { CgnError } from "../core/errors.ts";
import type { TokenizerSource, WorkerInfo } from "../core/worker.ts";
import { findEngine } from "../engines/registry.ts";
import type { ModelFiles } from "../modelfiles/model-files.ts";
import { readModel } from "../modelfiles/read-model.ts";
import { BYTE_BOS, BYTE_CHAT_TEMPLATE, BYTE_EOS } from "../prompt/byte-template.ts";
import { type ChatRenderer, type ChatRendererOptions, createChatRenderer } from "../prompt/chat-template.ts";
import { vocabularyFromGguf } from "../prompt/gguf-vocabulary.ts";
import { textNormalizer } from "../prompt/text-normalizer.ts";
import { vocabularyFromTokenizer } from "../prompt/tokenizer-json.ts";
import { byteVocabulary, type Vocabulary } from "../prompt/vocabulary.ts";

/** What kvcached needs of a model's files. */
export interface ModelText {
  readonly vocabulary: Vocabulary;
  /** Undefined when the model has no chat template. */
  readonly renderer: ChatRenderer | undefined;
}

/** Vocabularies by model, each read once: workers of one model share it. */
export interface Vocabularies {
  /** @throws CgnError MODEL_NOT_FOUND, STORAGE_UNUSABLE, NOT_SUPPORTED, CAPTURE_INVALID, TEMPLATE_FAILED, with the remedy */
  of(
    worker: Pick<WorkerInfo, "models" | "upstreamModel" | "tokenizer"> & Partial<Pick<WorkerInfo, "traits" | "kind">>,
  ): Promise<ModelText>;
}

/** How an engine takes chats. */
type ChatForm = Pick<ChatRendererOptions, "dialect" | "textJoin">;

/** Models kept; more are forgotten from the oldest on and read again when asked for. */
const MAX_MODELS = 32;

/** @param env - where the hub cache lies (`HF_HOME`, …) */
export function createVocabularies(env: Readonly<Record<string, string | undefined>>): Vocabularies {
  const known = new Map<string, Promise<ModelText>>();
  return {
    of(worker) {
      const repos = worker.upstreamModel === undefined ? worker.models : [worker.upstreamModel, ...worker.models];
      const join = worker.traits?.textPartsJoin;
      const dialect = (worker.kind === undefined ? undefined : findEngine(worker.kind).chat) ?? PLAIN_DIALECT;
      const key = JSON.stringify([keyOf(worker.tokenizer, repos), join, dialect]);
      const found = known.get(key);
      if (found !== undefined) return found;
      const loading = load(worker.tokenizer, repos, env, {
        dialect,
        ...(join === undefined ? {} : { textJoin: join }),
      });
      known.set(key, loading);
      // What failed is tried again at the next registration: somebody may have mended it.
      loading.catch(() => known.delete(key));
      if (known.size > MAX_MODELS) known.delete(known.keys().next().value as string);
      return loading;
    },
  };
}

function keyOf(tokenizer: TokenizerSource, repos: readonly string[]): string {
  if (tokenizer.bytes === true) return "bytes";
  return JSON.stringify([tokenizer.dir, tokenizer.gguf, tokenizer.dir ?? tokenizer.gguf ?? repos]);
}

async function load(
  tokenizer: TokenizerSource,
  repos: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
  chat: ChatForm,
): Promise<ModelText> {
  if (tokenizer.bytes === true) {
    const template = { template: BYTE_CHAT_TEMPLATE, bosToken: BYTE_BOS, eosToken: BYTE_EOS };
    return { vocabulary: byteVocabulary(), renderer: createChatRenderer({ ...template, ...chat }) };
  }
  const files = await readModel({ tokenizer, repos, env });
  const vocabulary = files === undefined ? undefined : vocabularyOf(files);
  if (files === undefined || vocabulary === undefined) {
    const name = repos[0] ?? "";
    const is = files === undefined ? "no tokenizer is known for it" : `${files.origin} has no tokenizer.json`;
    const remedy = `Set [models."${name}"].tokenizer to a folder with tokenizer.json, or download the model's tokenizer`;
    throw new CgnError("MODEL_NOT_FOUND", `Cannot decode KV events of "${name}": ${is}. ${remedy}`, {
      model: name,
      known: [],
    });
  }
  return { vocabulary, renderer: rendererOf(files, chat) };
}

function vocabularyOf(files: ModelFiles): Vocabulary | undefined {
  if (files.tokenizerJson !== undefined) return vocabularyFromTokenizer(files.tokenizerJson);
  if (files.gguf === undefined) return undefined;
  const { model, tokens, tokenTypes } = files.gguf;
  return vocabularyFromGguf({ model, tokens, types: tokenTypes });
}

/** The renderer of a model's chat template, as the router makes it. */
function rendererOf(files: ModelFiles, chat: ChatForm): ChatRenderer | undefined {
  if (files.chatTemplate === undefined) return undefined;
  const normalize = files.tokenizerJson === undefined ? undefined : textNormalizer(files.tokenizerJson);
  return createChatRenderer({
    template: files.chatTemplate,
    bosToken: files.bosToken ?? "",
    eosToken: files.eosToken ?? "",
    specialTokens: files.specialTokens,
    now: () => new Date(),
    normalize,
    ...chat,
  });
}
