import type { Counter, Gauge } from "prom-client";
import type { CounterCell, GaugeCell } from "./cells.ts";

/** A cell that adds up here and tells prom-client at the scrape only. */
export interface Pending {
  flush(): void;
}

/** @throws RangeError at the call for a negative step: a counter never falls */
export function pendingCounter(counter: Counter.Internal): CounterCell & Pending {
  let pending = 0;
  return {
    inc(by = 1) {
      if (!(by >= 0)) throw new RangeError(`Cannot count ${by}: a counter never falls`);
      pending += by;
    },
    flush() {
      if (pending !== 0) counter.inc(pending);
      pending = 0;
    },
  };
}

/** A gauge that nobody has set is not shown. */
export function pendingGauge(gauge: Gauge.Internal<string>): GaugeCell & Pending {
  let value: number | undefined;
  return {
    set(to) {
      value = to;
    },
    inc(by = 1) {
      value = (value ?? 0) + by;
    },
    dec(by = 1) {
      value = (value ?? 0) - by;
    },
    flush() {
      if (value !== undefined) gauge.set(value);
    },
  };
}
