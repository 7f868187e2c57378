import type { KvOffload } from "../../core/kv-offload.ts";
import type { Engine } from "../../engines/engine.ts";

/** What a first file says: all that `cgn init` asks for. */
export interface Choices {
  readonly engine: Engine;
  /** Keys of the engine's own section. */
  readonly options: Readonly<Record<string, string | number>>;
  /** The name that clients use. */
  readonly name: string;
  /** A path or a hub name; undefined where a running engine has it already. */
  readonly target?: string;
  /** Port of an engine that is started. */
  readonly enginePort?: number;
  /** Base URL of an engine that runs and is adopted. */
  readonly url?: string;
  /** GPUs that it gets, none where it computes on the CPU. */
  readonly gpus: readonly number[];
  /** This host has GPUs that could be given. */
  readonly hasGpus: boolean;
  readonly offload: KvOffload;
  /** Port of the endpoint. */
  readonly port: number;
  /** Port of the admin page. */
  readonly adminPort: number;
}

/** Why one would turn the dial there, in one sentence. */
export const OFFLOAD_REASONS: Readonly<Record<KvOffload, string>> = {
  none: "the cache stays with the engine. Right to begin with, and where prompts come back soon or never",
  nixl: "only for handing a prompt's cache from a prefill engine to a decode engine; alone it keeps nothing",
  lmcache:
    "what falls out of the GPU's cache goes to the host's memory and is read back instead of computed again: long chats, and documents that many ask about",
  hicache:
    "SGLang's own second and third tier: what falls out of the GPU's cache goes to the host's memory, with no package to install",
  kvbm: "NVIDIA Dynamo's block manager: host memory and then disk behind the GPU; needs its package beside vLLM",
};

/** Memory of the host from which an offload to it is worth its room. */
const OFFLOAD_MEMORY = 48 * 1024 ** 3;

/**
 * The offload that is proposed: none without a GPU (the cache lies in the host's memory already) or with little memory, else the
 * one that keeps prompts in the host's memory and is installed.
 */
export function proposedOffload(
  installed: readonly KvOffload[],
  host: { readonly hasGpus: boolean; readonly memoryBytes: number },
): KvOffload {
  if (!host.hasGpus || host.memoryBytes < OFFLOAD_MEMORY) return "none";
  return (["lmcache", "hicache"] as const).find((offload) => installed.includes(offload)) ?? "none";
}

/**
 * How many GPUs a model of that size wants: the smallest power of two (what tensor parallelism takes) that leaves a third of them to the
 * cache; all of them where even that is too little, one where nothing is known.
 */
export function gpusFor(bytes: number | undefined, gpuBytes: readonly number[]): number {
  const least = Math.min(...gpuBytes);
  if (gpuBytes.length === 0) return 0;
  if (bytes === undefined || !(least > 0)) return 1;
  let count = 1;
  while (count * 2 <= gpuBytes.length && bytes > (count * least * 2) / 3) count *= 2;
  return count;
}
