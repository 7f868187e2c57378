import type { WorkerId } from "../core/ids.ts";
import { blendRates, Calibration, TokenRatio, type TtftObservation } from "./calibration.ts";
import type { Rates } from "./decision.ts";

/** What the router learns from answers: rates by worker, drawn to their model's, and bytes a token by model. */
export class Learning {
  readonly #workers = new Map<WorkerId, Calibration>();
  readonly #models = new Map<string, Calibration>();
  readonly #ratios = new Map<string, TokenRatio>();

  rates(worker: WorkerId, model: string): Rates {
    const together = at(this.#models, model, newCalibration).rates();
    const own = this.#workers.get(worker)?.rates();
    return own === undefined ? together : blendRates(own, together);
  }

  observe(worker: WorkerId, model: string, observation: TtftObservation): void {
    at(this.#workers, worker, newCalibration).observe(observation);
    at(this.#models, model, newCalibration).observe(observation);
  }

  /** Of rendered prompts, and apart from them of bodies whose prompt could not be rendered. */
  ratio(model: string, rendered: boolean): TokenRatio {
    return at(this.#ratios, rendered ? model : `${model}\0body`, () => new TokenRatio());
  }

  forget(worker: WorkerId): void {
    this.#workers.delete(worker);
  }
}

const newCalibration = (): Calibration => new Calibration();

function at<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  let value = map.get(key);
  if (value === undefined) map.set(key, (value = make()));
  return value;
}
