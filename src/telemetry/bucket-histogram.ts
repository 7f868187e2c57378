import type { HistogramCell } from "./cells.ts";

interface Series {
  readonly labels: Readonly<Record<string, string>>;
  /** [buckets + 1] observations in each bucket, the last one above all bounds. Not cumulative. */
  readonly counts: Float64Array;
  sum: number;
}

interface Sample {
  readonly metricName: string;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly value: number;
}

/**
 * A histogram whose observation costs a search over its bounds and two additions. prom-client's own hashes the labels at
 * each one (about 1 µs, several times a request). Registered with its registry like any metric of its own.
 */
export class BucketHistogram {
  readonly name: string;
  readonly help: string;
  readonly type = "histogram";
  readonly aggregator = "sum";
  readonly #labelNames: readonly string[];
  readonly #bounds: readonly number[];
  readonly #series = new Map<string, Series>();

  /** @param bounds upper bounds of the buckets, ascending */
  constructor(name: string, help: string, labelNames: readonly string[], bounds: readonly number[]) {
    this.name = name;
    this.help = help;
    this.#labelNames = labelNames;
    this.#bounds = bounds;
  }

  /** The series of these label values, in the order of the names. Figures that are not finite are ignored. */
  labels(...values: string[]): HistogramCell {
    const series = this.#of(values);
    const bounds = this.#bounds;
    return {
      observe(value) {
        if (!Number.isFinite(value)) return;
        let at = 0;
        while (at < bounds.length && value > bounds[at]!) at++;
        series.counts[at]!++;
        series.sum += value;
      },
    };
  }

  remove(...values: string[]): void {
    this.#series.delete(values.join("\0"));
  }

  reset(): void {
    this.#series.clear();
  }

  /** What prom-client prints: cumulative buckets, then sum and count, for each series. */
  async get(): Promise<object> {
    const { name, help, type, aggregator } = this;
    return { name, help, type, aggregator, values: [...this.#series.values()].flatMap((s) => this.#samples(s)) };
  }

  #of(values: readonly string[]): Series {
    const key = values.join("\0");
    let series = this.#series.get(key);
    if (series === undefined) {
      const labels = Object.fromEntries(this.#labelNames.map((label, i) => [label, values[i] ?? ""]));
      series = { labels, counts: new Float64Array(this.#bounds.length + 1), sum: 0 };
      this.#series.set(key, series);
    }
    return series;
  }

  #samples({ labels, counts, sum }: Series): Sample[] {
    let below = 0;
    const buckets = [...this.#bounds, "+Inf"].map((le, i) => {
      below += counts[i] ?? 0;
      return { metricName: `${this.name}_bucket`, labels: { le, ...labels }, value: below };
    });
    return [
      ...buckets,
      { metricName: `${this.name}_sum`, labels, value: sum },
      { metricName: `${this.name}_count`, labels, value: below },
    ];
  }
}
