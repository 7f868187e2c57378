import type { Json } from "../core/chat-request.ts";
import type { WorkerInfo } from "../core/worker.ts";
import type { Engine, ToldTemplate } from "../engines/engine.ts";
import type { ModelFiles } from "../modelfiles/model-files.ts";
import { readModel } from "../modelfiles/read-model.ts";
import { BYTE_BOS, BYTE_CHAT_TEMPLATE, BYTE_EOS } from "../prompt/byte-template.ts";
import { vocabularyFromGguf } from "../prompt/gguf-vocabulary.ts";
import { completionPrompt } from "../prompt/prompt-bytes.ts";
import { textNormalizer } from "../prompt/text-normalizer.ts";
import { vocabularyFromTokenizer } from "../prompt/tokenizer-json.ts";
import { byteVocabulary, type Vocabulary } from "../prompt/vocabulary.ts";
import { isObject } from "./answer.ts";
import {
  type ChatApi,
  type ChatEngine,
  type ChatPromptSeed,
  createChatPrompts,
  normalizingParts,
  weightOf,
} from "./chat-prompts.ts";
import type { PromptRenderer } from "./render.ts";
import type { RenderThread } from "./start-render-thread.ts";

/** How the outside is asked; tests pass their own. */
export interface RendererDeps {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly engineOf: (worker: WorkerInfo) => Pick<Engine, "probe" | "chat">;
  /** GET a path of the engine; undefined when it does not answer 200. */
  readonly ask: (worker: WorkerInfo, path: string) => Promise<string | undefined>;
  readonly now: () => Date;
  /** Runs long templates; without it they run here. */
  readonly thread?: RenderThread;
}

/** A model's renderer, and what it lacks, for people. */
export interface LoadedRenderer {
  readonly renderer: PromptRenderer | undefined;
  readonly problem: string | undefined;
}

/**
 * Make the renderer of a worker's model: chat template from the engine itself where it tells (it may have been started with
 * another than the model's own), else from the model's files; vocabulary and normaliser from the files.
 * @throws CgnError MODEL_NOT_FOUND, STORAGE_UNUSABLE, TEMPLATE_FAILED
 */
export async function loadRenderer(worker: WorkerInfo, deps: RendererDeps): Promise<LoadedRenderer> {
  const join = worker.traits.textPartsJoin;
  if (worker.tokenizer.bytes === true) return { renderer: byteRenderer(worker, deps), problem: undefined };
  const told = await toldTemplate(worker, deps);
  const repos = worker.upstreamModel === undefined ? worker.models : [worker.upstreamModel, ...worker.models];
  const files = await readModel({ tokenizer: worker.tokenizer, repos, env: deps.env }).catch((e: unknown) => {
    // With a template from the engine, files that cannot be read cost only prompts of token ids.
    if (told === undefined) throw e;
    return undefined;
  });
  const template = told?.template ?? files?.chatTemplate;
  if (template === undefined && files === undefined) {
    const remedy = `Set [models."${worker.models[0]}"].tokenizer to its folder or GGUF file`;
    return {
      renderer: undefined,
      problem: `no chat template and no tokenizer are known: routing by load only. ${remedy}`,
    };
  }
  const normalize = files?.tokenizerJson === undefined ? undefined : textNormalizer(files.tokenizerJson);
  const tokenizer = normalizingParts(files?.tokenizerJson);
  const chats =
    template === undefined
      ? NO_CHATS
      : chatsOf(
          {
            kind: worker.kind,
            template,
            bosToken: told?.bos ?? files?.bosToken ?? "",
            eosToken: told?.eos ?? files?.eosToken ?? "",
            specialTokens: files?.specialTokens ?? {},
            ...(told === undefined ? {} : { told: told.body }),
            ...(join === undefined ? {} : { textJoin: join }),
            ...(tokenizer === undefined ? {} : { tokenizer }),
          },
          deps.engineOf(worker),
          deps,
        );
  const completion = {
    vocabulary: files === undefined ? undefined : vocabularyOf(files),
    normalize,
    bos: files === undefined ? "" : completionBos(files),
  };
  return {
    renderer: {
      ...chats,
      completion: (prompt) => completionPrompt(prompt, completion),
    },
    problem: template === undefined ? "no chat template: chats are routed by load only" : undefined,
  };
}

type Chats = Omit<PromptRenderer, "completion">;

const noTemplate = { reason: "the model has no chat template" };
const NO_CHATS: Chats = { chat: () => noTemplate, messages: () => noTemplate, responses: () => noTemplate };

/** Heavier bodies whose template is not compiled are rendered on the other thread: up to it a template runs for some 2 ms. */
const HEAVY = 48;

/** The prompts of all APIs whose bodies become chats. */
function chatsOf(seed: ChatPromptSeed, engine: ChatEngine, { now, thread }: RendererDeps): Chats {
  const prompts = createChatPrompts(seed, now, engine);
  const elsewhere = thread?.model(seed);
  const by = (api: ChatApi) => (body: Json) => {
    if (elsewhere === undefined || weightOf(body) < HEAVY) return prompts.render(api, body);
    return prompts.quick(api, body) ?? elsewhere.render(api, body);
  };
  return { chat: (request) => by("chat")(request as Json), messages: by("messages"), responses: by("responses") };
}

async function toldTemplate(
  worker: WorkerInfo,
  { engineOf, ask }: RendererDeps,
): Promise<(ToldTemplate & { readonly body: string }) | undefined> {
  const { template } = engineOf(worker).probe;
  if (template === undefined) return undefined;
  const body = await ask(worker, template.path);
  const told = body === undefined ? undefined : template.parse(body);
  return told === undefined || body === undefined ? undefined : { ...told, body };
}

/** The simulator's: id = byte. */
function byteRenderer(worker: WorkerInfo, deps: RendererDeps): PromptRenderer {
  const template = { template: BYTE_CHAT_TEMPLATE, bosToken: BYTE_BOS, eosToken: BYTE_EOS, specialTokens: {} };
  const join = worker.traits.textPartsJoin;
  const seed = { kind: worker.kind, ...template, ...(join === undefined ? {} : { textJoin: join }) };
  const chats = chatsOf(seed, deps.engineOf(worker), deps);
  const vocabulary = byteVocabulary();
  return {
    ...chats,
    completion: (prompt) => completionPrompt(prompt, { vocabulary, bos: BYTE_BOS }),
  };
}

function vocabularyOf(files: ModelFiles): Vocabulary | undefined {
  if (files.tokenizerJson !== undefined) return vocabularyFromTokenizer(files.tokenizerJson);
  if (files.gguf === undefined) return undefined;
  const { model, tokens, tokenTypes } = files.gguf;
  return vocabularyFromGguf({ model, tokens, types: tokenTypes });
}

/** The text that the tokenizer puts before a text prompt: `add_bos` of a GGUF, or a post-processor's template. */
function completionBos(files: ModelFiles): string {
  if (files.gguf !== undefined) return files.gguf.addBos === true ? (files.bosToken ?? "") : "";
  const post = isObject(files.tokenizerJson) ? files.tokenizerJson["post_processor"] : undefined;
  if (!isObject(post)) return "";
  const parts: readonly unknown[] = Array.isArray(post["processors"]) ? post["processors"] : [post];
  for (const part of parts) {
    const single = isObject(part) && part["type"] === "TemplateProcessing" ? part["single"] : undefined;
    const first = Array.isArray(single) && isObject(single[0]) ? single[0]["SpecialToken"] : undefined;
    if (isObject(first) && typeof first["id"] === "string") return first["id"];
  }
  return "";
}
