import type { ScoreWeights } from "../../routing/policies-plain.ts";
import type { EngineLimits } from "../model/limits.ts";
import type { EngineProfile } from "../model/profile.ts";
import type { TraceRequest } from "./trace.ts";

/** An engine that fails at a time and comes back, empty, after another. */
export interface EngineFailure {
  readonly engine: number;
  /** Milliseconds of virtual time. */
  readonly at: number;
  readonly forMs: number;
}

/** `[router.admission]`: what is not given does not bind. */
export interface ReplayAdmission {
  readonly maxQueue?: number | undefined;
  readonly maxConcurrentPerEngine?: number | undefined;
  readonly queueTimeoutMs?: number | undefined;
  readonly ttftSloMs?: number | undefined;
}

/** Prefill and decode on different engines. */
export interface DisaggregatedFleet {
  readonly prefill: number;
  readonly decode: number;
  /** Prompts with fewer uncached tokens are not split. */
  readonly colocateBelowTokens: number;
}

/** What a live router knows its engines and prompts by. */
export interface LiveNames {
  /** [engines] worker ids. */
  readonly engines: readonly string[];
  /** As `prefixHash()` of the prompt's text. */
  prefixOf(request: TraceRequest): number;
}

/** A fleet, how it is routed, and what goes wrong. */
export interface ReplayOptions {
  readonly policy: string;
  /** For `weighted`. */
  readonly weights?: ScoreWeights;
  readonly routers: number;
  readonly engines: number;
  /** Engines 0 to `prefill` - 1 only prefill, the rest decode; they are `engines` together. */
  readonly disaggregated?: DisaggregatedFleet | undefined;
  readonly limits: EngineLimits;
  readonly profile: EngineProfile;
  readonly gpusPerEngine: number;
  readonly seed: number;
  /** For comparisons with a live fleet: the engines' names and prompts' prefix hashes, by which near ties are decided. */
  readonly live?: LiveNames | undefined;
  readonly knowledge: "events" | "history";
  /** How long after an engine stored a block the routers know it. */
  readonly knowledgeDelayMs: number;
  /** Prompts that a router remembers for each engine (`history`). */
  readonly historyEntries: number;
  /** Share of event batches that are lost for good, 0 to 1. */
  readonly lostEvents: number;
  /** How late routers hear of each other's bookings; undefined: never. */
  readonly shareBookingsMs?: number | undefined;
  readonly failures: readonly EngineFailure[];
  readonly admission: ReplayAdmission;
}
