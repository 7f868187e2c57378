import { allPathsBut } from "../../core/api-paths.ts";
import type { KvSource, WorkerTraits } from "../../core/worker.ts";
import { type Announcement, type Engine, type EngineSlot, tokenizerSource } from "../engine.ts";
import { noneOnlyCell } from "../none-only.ts";
import type { TokenLogprobs } from "../token-logprobs.ts";
import { llamaChat } from "./llama-cpp-chat.ts";
import {
  contextTokens,
  type LlamaCppInput,
  launchLlamaCpp,
  modeOfInput,
  slotCount,
  slotsShareContext,
  userArgsOf,
} from "./llama-cpp-launch.ts";
import { type LlamaCppOptions, llamaCppSchema, MODES, modeOf } from "./llama-cpp-options.ts";
import { llamaCppProbe } from "./llama-cpp-probe.ts";
import { llamaHistory } from "./llama-cpp-slots.ts";
import { llamaCppVariants } from "./llama-cpp-variants.ts";
import { llamaCppNeeds } from "./requirements.ts";

/** Asked of a running xllamacpp 2026.10: all other known paths are "File Not Found". */
const LLAMA_HAS = [
  "/v1/chat/completions",
  "/v1/completions",
  "/v1/embeddings",
  "/v1/responses",
  "/v1/messages",
  "/v1/messages/count_tokens",
  "/v1/rerank",
  "/rerank",
  "/tokenize",
  "/detokenize",
  "/v1/audio/transcriptions",
];

/**
 * llama-server: a wrong model name is ignored, a non-streaming request runs to its end when the client has left, and the
 * connection is closed after a streamed answer without `Connection: close` (seen on xllamacpp 2026.10: of 60 requests on one
 * connection 30 were cut).
 */
const SERVER_TRAITS: WorkerTraits = {
  reportsCachedTokens: true,
  usageOnlyWhenAsked: true,
  foldNonStreaming: true,
  ignoresModelName: true,
  closesConnections: true,
  sparseResponseEvents: true,
  lacks: allPathsBut(LLAMA_HAS),
};

/** llama_cpp.server tells no cached tokens, and no usage at all in a stream: folding would lose it. */
const PYTHON_TRAITS: WorkerTraits = {
  ignoresModelName: true,
  // Only with `--logits_all true`; else it answers 500 (llama_cpp/llama.py, `_create_completion()`, 0.3.36).
  lacksLogprobs: true,
  // Routes of llama_cpp/server/app.py, 0.3.36.
  lacks: allPathsBut(["/v1/chat/completions", "/v1/completions", "/v1/embeddings"]),
};

/**
 * `top_logprobs` is 20 where it is left out, and 0 tells none; with tools a stream that asks is refused with 400 (server-common.cpp,
 * `oaicompat_chat_params_parse()`); text completions tell them in the form of chats (server-task.cpp, `to_json_oaicompat()`).
 */
const LOGPROBS: TokenLogprobs = {
  chat: { logprobs: "true", top_logprobs: "1" },
  completion: { logprobs: "1" },
  streams: true,
  toolStreams: false,
  unasked: { chat: "absent", completion: "null" },
};

/** llama.cpp in its three modes. Facts of llama-server (October 2026), xllamacpp 2026.10 and llama-cpp-python 0.3.36. */
export const llamaCpp: Engine<LlamaCppOptions> = {
  kind: "llama_cpp",
  section: "llama_cpp",
  sectionAliases: [],
  spawns: true,
  traits: SERVER_TRAITS,
  traitsFor,
  schema: llamaCppSchema,
  installs: MODES.map((mode) => ({ mode })),
  onGpu: { n_gpu_layers: -1 },
  defaultPort: (options) => options.port ?? 8000,
  cell: (offload, role) => noneOnlyCell("llama.cpp", offload, role),
  launch: launchLlamaCpp,
  announce,
  needs: llamaCppNeeds,
  variants: llamaCppVariants,
  probe: llamaCppProbe,
  chat: llamaChat({}),
  tokenLogprobs: LOGPROBS,
};

function traitsFor(options: LlamaCppOptions, slot?: EngineSlot): WorkerTraits {
  return modeOf(options, slot) === "python_server" ? PYTHON_TRAITS : SERVER_TRAITS;
}

function announce(input: LlamaCppInput): Announcement {
  const maxModelTokens = contextTokens(input);
  return {
    kv: historyOf(input),
    tokenizer: tokenizerSource(input.model),
    ...(maxModelTokens === undefined ? {} : { maxModelTokens }),
  };
}

/** llama_cpp.server keeps the last prompt and continues any common part of it; llama-server has slots and a store. */
function historyOf(input: LlamaCppInput): KvSource {
  const count = slotCount(input);
  if (modeOfInput(input) === "python_server") return { type: "history", entries: count };
  return llamaHistory(count, slotsShareContext(input), userArgsOf(input));
}
