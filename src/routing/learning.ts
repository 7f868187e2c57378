import type { WorkerId } from "../core/ids.ts";
import type { Tier } from "../core/kv-event.ts";
import { Calibration, TokenRatio, type TtftObservation } from "./calibration.ts";
import type { Rates } from "./decision.ts";
import { FetchRates, priorFetchMs } from "./fetch-rates.ts";
import { SpeedFactor } from "./speed.ts";

/** One request whose first token was seen, and what of its prompt came from a slower tier. */
export interface LearningObservation extends TtftObservation {
  /** Cached tokens that were believed to lie in `tier`. */
  readonly cachedTokens?: number;
  readonly tier?: Tier;
}

interface WorkerLearning {
  readonly model: string;
  readonly speed: SpeedFactor;
  readonly fetch: FetchRates;
  /** Made anew when something of it, or of its model, was learnt. */
  rates: Rates | undefined;
  basis: Rates | undefined;
}

/**
 * What the router learns from answers: rates by model, how fast each worker is beside the others of its model, what it takes to fetch
 * from its tiers, and bytes a token by model.
 */
export class Learning {
  readonly #workers = new Map<WorkerId, Map<string, WorkerLearning>>();
  readonly #models = new Map<string, Calibration>();
  readonly #ratios = new Map<string, TokenRatio>();

  rates(worker: WorkerId, model: string): Rates {
    const together = at(this.#models, model, newCalibration).rates();
    const own = this.#workers.get(worker)?.get(model);
    if (own === undefined) return together;
    if (own.rates === undefined || own.basis !== together) {
      own.basis = together;
      own.rates = scaled(together, own);
    }
    return own.rates;
  }

  observe(worker: WorkerId, model: string, observation: LearningObservation): void {
    const { uncachedTokens, queuedTokens, streams, ttftMs, cachedTokens = 0, tier = "device" } = observation;
    const own = at(at(this.#workers, worker, newModels), model, () => newWorker(model));
    const known = this.rates(worker, model);
    const predictedMs = known.baseMs + (uncachedTokens + queuedTokens) * known.perTokenMs + streams * known.perStreamMs;
    own.rates = undefined;
    let computedMs = ttftMs;
    if (tier !== "device" && cachedTokens > 0) {
      const fetchMs = cachedTokens * (known.fetchMs?.[tier] ?? priorFetchMs(tier, known.perTokenMs));
      own.fetch.observe(tier, cachedTokens, ttftMs - predictedMs, known.perTokenMs);
      // What fetching took would else be laid on computing.
      if (fetchMs > predictedMs) return;
      computedMs = Math.max(0, ttftMs - fetchMs);
    }
    const factor = own.speed.factor();
    own.speed.observe(computedMs, predictedMs / factor);
    // As if its worker were as fast as the others: a slow one must not make all look slow.
    at(this.#models, model, newCalibration).observe({
      uncachedTokens,
      queuedTokens,
      streams,
      ttftMs: computedMs / factor,
    });
  }

  /** Of rendered prompts, and apart from them of bodies whose prompt could not be rendered. */
  ratio(model: string, rendered: boolean): TokenRatio {
    return at(this.#ratios, rendered ? model : `${model}\0body`, () => new TokenRatio());
  }

  forget(worker: WorkerId): void {
    this.#workers.delete(worker);
  }
}

function scaled(together: Rates, { speed, fetch }: WorkerLearning): Rates {
  const factor = speed.factor();
  const perTokenMs = together.perTokenMs * factor;
  const fetchMs = fetch.rates(perTokenMs);
  return {
    baseMs: together.baseMs * factor,
    perTokenMs,
    perStreamMs: together.perStreamMs * factor,
    errorMs: together.errorMs * factor,
    observations: together.observations,
    ...(fetchMs === undefined ? {} : { fetchMs }),
  };
}

const newCalibration = (): Calibration => new Calibration();
const newModels = (): Map<string, WorkerLearning> => new Map();
const newWorker = (model: string): WorkerLearning => ({
  model,
  speed: new SpeedFactor(),
  fetch: new FetchRates(),
  rates: undefined,
  basis: undefined,
});

function at<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  let value = map.get(key);
  if (value === undefined) map.set(key, (value = make()));
  return value;
}
