import type { BlockNamer } from "./cache-event.ts";
import { EngineModel } from "./engine-model.ts";
import type { EngineLimits } from "./limits.ts";
import type { ModelOutput } from "./output.ts";
import type { EngineProfile } from "./profile.ts";
import type { AnyRequest } from "./request.ts";

/** What comes of one rank. */
export type RankOutput = ModelOutput & { readonly rank: number };

/**
 * An engine with data-parallel ranks (`limits.dpRanks`): each has all the limits and a cache to itself, and computes on its own. A
 * request that names no rank goes where 4 × waiting + running is least, as vLLM's own balancer has it (v1 `DPLBAsyncMPClient`).
 */
export class RankedEngine {
  readonly ranks: readonly EngineModel[];
  readonly #rankOf = new Map<string, number>();

  constructor(limits: EngineLimits, profile: EngineProfile, namer: BlockNamer) {
    this.ranks = Array.from({ length: limits.dpRanks ?? 1 }, () => new EngineModel(limits, profile, namer));
  }

  /** When `advance` is next due. */
  get nextAt(): number | undefined {
    let next: number | undefined;
    for (const { nextAt } of this.ranks)
      if (nextAt !== undefined && (next === undefined || nextAt < next)) next = nextAt;
    return next;
  }

  /**
   * @param rank where it must be computed; else the engine chooses
   * @returns the rank
   * @throws RangeError as the rank's model does, for an id that any rank knows, or a rank that is not there
   */
  submit(now: number, request: AnyRequest, rank: number = this.#leastBusy()): number {
    const engine = this.ranks[rank];
    if (engine === undefined) throw new RangeError(`there is no rank ${rank} of ${this.ranks.length}`);
    if (this.#rankOf.has(request.id)) throw new RangeError(`request ${request.id} is known already`);
    engine.submit(now, request);
    this.#rankOf.set(request.id, rank);
    return rank;
  }

  abort(now: number, id: string): void {
    this.#of(id)?.abort(now, id);
    this.#rankOf.delete(id);
  }

  /** Prefill side: see `EngineModel.release`. */
  release(now: number, id: string): void {
    this.#of(id)?.release(now, id);
    this.#rankOf.delete(id);
  }

  /** Do all that is due by `now`, on all ranks. @returns what came of it, in the order of time */
  advance(now: number): readonly RankOutput[] {
    const outputs = this.ranks.flatMap((engine, rank) => engine.advance(now).map((output) => ({ ...output, rank })));
    for (const output of outputs) if (output.type === "expired") this.#rankOf.delete(output.id);
    for (const output of outputs) if (output.type === "finished") this.#ended(output.id);
    return this.ranks.length === 1 ? outputs : outputs.sort((a, b) => a.at - b.at);
  }

  /** A request whose blocks are held is known until they are released. */
  #ended(id: string): void {
    if (this.#of(id)?.holds(id) !== true) this.#rankOf.delete(id);
  }

  #of(id: string): EngineModel | undefined {
    const rank = this.#rankOf.get(id);
    return rank === undefined ? undefined : this.ranks[rank];
  }

  #leastBusy(): number {
    let best = 0;
    let least = Number.POSITIVE_INFINITY;
    for (const [rank, { waiting, running }] of this.ranks.entries()) {
      const load = 4 * waiting + running;
      if (load >= least) continue;
      least = load;
      best = rank;
    }
    return best;
  }
}
