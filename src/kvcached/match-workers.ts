import type { WorkerId } from "../core/ids.ts";
import type { MatchQuery, WorkerMatch } from "../core/prefix-knowledge.ts";
import type { WorkerInfo } from "../core/worker.ts";
import type { PrefixMatch, WorkerSlot } from "../kvindex/prefix-index.ts";
import type { KnownBy } from "../wire/kv-delta.ts";
import type { Held } from "./history-source.ts";

/** A worker as a match needs it: one that is followed here, or a copy of one. */
export interface MatchableWorker {
  readonly info: Pick<WorkerInfo, "models">;
  readonly slot: WorkerSlot;
  readonly knownBy: KnownBy;
  /** What the engine counts is a multiple of so many tokens. */
  readonly alignTokens: number;
  /** Fewer tokens than these of a common prefix count as none. */
  readonly minTokens: number;
  /** What is held by what was sent; `inIndex` is what the index says. Undefined where events tell all. */
  match(root: string, prompt: Uint8Array, inIndex: Held): Held | undefined;
}

const NOTHING: Held = { bytes: 0, tokens: 0 };

/** What the index says of the workers that have the query's model, and what sources know besides it: the better for a worker. */
export function matchWorkers(
  query: MatchQuery,
  workers: ReadonlyMap<WorkerId, MatchableWorker>,
  found: readonly PrefixMatch[],
): WorkerMatch[] {
  const answer: WorkerMatch[] = [];
  for (const m of found) {
    const worker = workers.get(m.worker);
    if (worker === undefined || worker.slot !== m.slot || worker.knownBy === "unproved") continue;
    if (!worker.info.models.includes(query.model)) continue;
    const { blocks, bytes, tier, source } = m;
    // An engine with several KV groups re-uses multiples of all their block sizes only.
    const tokens = source === "events" ? m.tokens - (m.tokens % worker.alignTokens) : m.tokens;
    if (tokens === 0 && m.tokens > 0) continue;
    answer.push({ worker: m.worker, tokens, blocks, bytes, tier, source });
  }
  for (const [id, worker] of workers) {
    if (worker.knownBy !== "history" || !worker.info.models.includes(query.model)) continue;
    const at = answer.findIndex((m) => m.worker === id && m.source === "history");
    const held = worker.match(query.root, query.prompt, answer[at] ?? NOTHING);
    if (held === undefined) continue;
    if (at >= 0) answer.splice(at, 1);
    const { bytes, tokens } = held;
    if (tokens >= worker.minTokens)
      answer.push({ worker: id, tokens, bytes, blocks: 0, tier: "device", source: "history" });
  }
  return answer;
}
