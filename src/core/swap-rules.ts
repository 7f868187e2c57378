import type { WorkerId } from "./ids.ts";

/** Engines that swap with each other, or may live together. Names and meaning are llama-swap's. */
export interface SwapGroup {
  readonly name: string;
  /** One member at a time. False: members may live together, also on the same GPUs. */
  readonly swap: boolean;
  /** Loading a member unloads other groups' members. */
  readonly exclusive: boolean;
  /** Other groups' exclusiveness does not unload its members. */
  readonly persistent: boolean;
}

/** One engine that is loaded on demand, as far as its place matters. */
export interface SwapEngine {
  readonly id: WorkerId;
  readonly model: string;
  /** GPUs that it fills; empty: none, or not known. */
  readonly gpus: readonly number[];
  readonly group?: SwapGroup;
  /** What it takes of the memory budget; 0: it is not counted. */
  readonly memoryBytes: number;
  /** Unloaded after it was idle for so long; undefined: only by need. */
  readonly ttlMs?: number;
}

export interface SwapRules {
  readonly engines: readonly SwapEngine[];
  /** A loaded engine stays at least so long, whoever waits. */
  readonly minResidencyMs: number;
  /** What all loaded engines together may take; undefined: no budget. */
  readonly memoryBytes?: number;
  /** A load that failed is not tried again for so long. */
  readonly retryMs: number;
}

/** What of an engine decides whom it excludes. */
export type Placed = Pick<SwapEngine, "model" | "gpus" | "group" | "memoryBytes">;

/** Must `resident` be away before `loader` may be loaded? Engines of one model never stand in each other's way. */
export function mustLeave(loader: Placed, resident: Placed): boolean {
  if (loader.model === resident.model) return false;
  const { group: own } = loader;
  const { group: other } = resident;
  if (own !== undefined && own.name === other?.name) return own.swap;
  if (loader.gpus.some((gpu) => resident.gpus.includes(gpu))) return true;
  return own?.exclusive === true && other !== undefined && !other.persistent;
}

/** Can the two not be loaded at once, in whichever order? */
export function excludes(a: Placed, b: Placed, rules: { readonly memoryBytes?: number }): boolean {
  const tooLarge = rules.memoryBytes !== undefined && a.memoryBytes + b.memoryBytes > rules.memoryBytes;
  return mustLeave(a, b) || mustLeave(b, a) || (tooLarge && a.model !== b.model);
}
