import { candidate } from "./cost.ts";
import type { Decision, Policy, RequestFacts, WorkerSnapshot } from "./decision.ts";
import { rendezvous } from "./rendezvous.ts";

/** Each in turn, in the order given. */
export function createRoundRobinPolicy(): Policy {
  let next = 0;
  return {
    name: "round_robin",
    choose: (_request, workers) => {
      const index = next % Math.max(1, workers.length);
      next = index + 1;
      return decide("round_robin", workers, index, "its turn");
    },
  };
}

/** Fewest requests in flight; equals in turn, so that idle workers share. */
export function createLeastLoadedPolicy(): Policy {
  let turn = 0;
  return {
    name: "least_loaded",
    choose: (_request, workers) => {
      const start = turn++;
      let index = start % Math.max(1, workers.length);
      for (let k = 0; k < workers.length; k++) {
        const i = (start + k) % workers.length;
        if (workers[i]!.inFlight < workers[index]!.inFlight) index = i;
      }
      return decide(
        "least_loaded",
        workers,
        index,
        `${workers[index]?.inFlight} in flight, the fewest`,
        (w) => w.inFlight,
      );
    },
  };
}

/** The prefix's own home by rendezvous hash, whatever the load. */
export function createPrefixHashPolicy(): Policy {
  return {
    name: "prefix_hash",
    choose: (request, workers) =>
      decide("prefix_hash", workers, rendezvous(request.prefix, workers), "home of this prefix by hash"),
  };
}

/** Uniform, from a seeded generator: the same seed gives the same choices. */
export function createRandomPolicy(seed: number): Policy {
  let state = seed >>> 0;
  return {
    name: "random",
    choose: (_request, workers) => {
      // Mulberry32 (public domain, Tommy Ettinger).
      state = (state + 0x6d2b79f5) >>> 0;
      let t = Math.imul(state ^ (state >>> 15), state | 1);
      t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
      const unit = ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
      return decide("random", workers, Math.floor(unit * workers.length), "drawn");
    },
  };
}

/** `[router.score_weights]`. */
export interface ScoreWeights {
  readonly kv: number;
  readonly load: number;
  readonly power: number;
  readonly capacity: number;
}

/** In-flight requests that count as full when a worker's capacity is not known: the old `max_concurrent_per_replica`. */
const DEFAULT_CAPACITY = 16;

/**
 * The old weighted score: kv × share of the prompt cached + load × idleness + power × share of the power limit that is not drawn +
 * capacity × free KV space. A figure that no worker has makes its term drop out (for `capacity`: free places count instead); a worker
 * that lacks one others have counts as their mean.
 */
export function createWeightedPolicy(weights: ScoreWeights): Policy {
  const value = (request: RequestFacts, w: WorkerSnapshot, means: Means): number => {
    const places = w.capacity ?? DEFAULT_CAPACITY;
    const cached = request.promptTokens > 0 ? Math.min(1, w.cachedTokens / request.promptTokens) : 0;
    const busy = Math.min(1, w.inFlight / places);
    const waiting = w.queuedTokens / (w.queuedTokens + 8192);
    const power = means.power === undefined ? 0 : weights.power * (w.figures?.powerHeadroom ?? means.power);
    const free = means.kvFree === undefined ? 1 - busy : (w.figures?.kvFree ?? means.kvFree);
    return weights.kv * cached + weights.load * (1 - Math.max(busy, waiting)) + weights.capacity * free + power;
  };
  return {
    name: "weighted",
    choose: (request, workers) => {
      const means = {
        power: meanOf(workers, (w) => w.figures?.powerHeadroom),
        kvFree: meanOf(workers, (w) => w.figures?.kvFree),
      };
      let index = 0;
      for (let i = 1; i < workers.length; i++) {
        if (value(request, workers[i]!, means) > value(request, workers[index]!, means)) index = i;
      }
      return decide("weighted", workers, index, "highest weighted score", (w) => -value(request, w, means));
    },
  };
}

interface Means {
  readonly power: number | undefined;
  readonly kvFree: number | undefined;
}

/** Of the workers that tell it; undefined: none does. */
function meanOf(workers: readonly WorkerSnapshot[], of: (w: WorkerSnapshot) => number | undefined): number | undefined {
  let sum = 0;
  let count = 0;
  for (const worker of workers) {
    const value = of(worker);
    if (value === undefined) continue;
    sum += value;
    count++;
  }
  return count === 0 ? undefined : sum / count;
}

function decide(
  policy: string,
  workers: readonly WorkerSnapshot[],
  index: number,
  reason: string,
  score?: (w: WorkerSnapshot) => number,
): Decision {
  const chosen = workers[index];
  if (chosen === undefined) throw new RangeError(`${policy}: choose() needs at least one worker`);
  const candidates = workers.map((w, i) => candidate(w, score === undefined ? Number(i !== index) : score(w)));
  return { policy, index, worker: chosen.id, candidates, reason };
}
