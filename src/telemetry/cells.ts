/** One series of a counter. */
export interface CounterCell {
  /** Default 1; must not be negative. */
  inc(by?: number): void;
}

/** One series of a gauge. */
export interface GaugeCell {
  set(value: number): void;
  inc(by?: number): void;
  dec(by?: number): void;
}

/** One series of a histogram. */
export interface HistogramCell {
  observe(value: number): void;
}
