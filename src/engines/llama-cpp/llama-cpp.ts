import type { WorkerTraits } from "../../core/worker.ts";
import { userValue } from "../args.ts";
import { type Announcement, type Engine, type EngineSlot, tokenizerSource } from "../engine.ts";
import { noneOnlyCell } from "../none-only.ts";
import {
  contextTokens,
  type LlamaCppInput,
  launchLlamaCpp,
  modeOfInput,
  slotCount,
  userArgsOf,
} from "./llama-cpp-launch.ts";
import { type LlamaCppOptions, llamaCppSchema, modeOf } from "./llama-cpp-options.ts";
import { llamaCppProbe } from "./llama-cpp-probe.ts";

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
};

/** llama_cpp.server tells no cached tokens, and no usage at all in a stream: folding would lose it. */
const PYTHON_TRAITS: WorkerTraits = { ignoresModelName: true };

/**
 * Prompts that llama-server is believed to keep for each slot: the slot's own, and some in its store in RAM (`--cache-ram`).
 * Measured: six conversations on four slots all came back. The store's exact rule is not known, so this is an estimate; the
 * `cached_tokens` of each answer corrects it.
 */
const PROMPTS_PER_SLOT = 4;

/** llama.cpp in its three modes. Facts of llama-server (October 2026), xllamacpp 2026.10 and llama-cpp-python 0.3.36. */
export const llamaCpp: Engine<LlamaCppOptions> = {
  kind: "llama_cpp",
  section: "llama_cpp",
  sectionAliases: [],
  spawns: true,
  traits: SERVER_TRAITS,
  traitsFor,
  schema: llamaCppSchema,
  defaultPort: (options) => options.port ?? 8000,
  cell: (offload, role) => noneOnlyCell("llama.cpp", offload, role),
  launch: launchLlamaCpp,
  announce,
  probe: llamaCppProbe,
};

function traitsFor(options: LlamaCppOptions, slot?: EngineSlot): WorkerTraits {
  return modeOf(options, slot) === "python_server" ? PYTHON_TRAITS : SERVER_TRAITS;
}

function announce(input: LlamaCppInput): Announcement {
  const maxModelTokens = contextTokens(input);
  return {
    kv: { type: "history", entries: historyEntries(input) },
    tokenizer: tokenizerSource(input.model),
    ...(maxModelTokens === undefined ? {} : { maxModelTokens }),
  };
}

function historyEntries(input: LlamaCppInput): number {
  const slots = slotCount(input);
  if (modeOfInput(input) === "python_server") return slots;
  const hasStore = userValue(userArgsOf(input), ["--cache-ram", "-cram"]) !== "0";
  return hasStore ? slots * PROMPTS_PER_SLOT : slots;
}
