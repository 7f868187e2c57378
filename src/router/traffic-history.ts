import type { Clock } from "../core/clock.ts";

/** Length of one point. */
const STEP_MS = 15_000;
/** A day of them: some 1.1 MB. */
const POINTS = (24 * 3_600_000) / STEP_MS;

/** Times are counted in bins of half an octave, from 1 ms to 65 s; what is longer counts as the last. */
const BINS = 32;
const binOf = (ms: number): number => Math.min(BINS - 1, Math.max(0, Math.floor(2 * Math.log2(Math.max(1, ms)))));

const SUMS = [
  "requests",
  "errors",
  "refused",
  "promptTokens",
  "cachedTokens",
  "comparedTokens",
  "predictedTokens",
  "generatedTokens",
] as const;
const PEAKS = ["inFlight", "queued"] as const;
type Sum = (typeof SUMS)[number];
type Peak = (typeof PEAKS)[number];

/** What is going on at this moment. */
export interface FlowGauges {
  readonly inFlight: number;
  /** Requests that wait: for their turn, or for their model. */
  readonly queued: number;
}

/** Columns of equal length, oldest first; null where there was nothing to measure. */
export interface HistoryColumns {
  /** Milliseconds since the epoch: the beginning of the first point. */
  readonly fromMs: number;
  readonly stepMs: number;
  readonly columns: Readonly<Record<string, readonly (number | null)[]>>;
}

/**
 * What happened in the last day, 15 s a point, in typed arrays of a fixed size. Kept in memory: a router that is started anew begins anew.
 *
 * Costs a few additions a request. Percentiles are kept as counts by bin, so points can be joined.
 */
export class TrafficHistory {
  readonly #clock: Clock;
  readonly #gauges: () => FlowGauges;
  readonly #sums = Object.fromEntries(SUMS.map((name) => [name, new Float32Array(POINTS)])) as Record<
    Sum,
    Float32Array
  >;
  readonly #peaks = Object.fromEntries(PEAKS.map((name) => [name, new Uint16Array(POINTS)])) as Record<
    Peak,
    Uint16Array
  >;
  readonly #ttft = new Uint16Array(POINTS * BINS);
  readonly #itl = new Uint16Array(POINTS * BINS);
  /** Number of the current point since the epoch; its place is the rest by `POINTS`. */
  #point: number;
  readonly #first: number;
  #cancel: (() => void) | undefined;

  constructor(clock: Clock, gauges: () => FlowGauges) {
    this.#clock = clock;
    this.#gauges = gauges;
    this.#point = this.#first = this.#now();
    this.#later();
  }

  /** A request ended. @param ttftMs undefined: no time to tell */
  ended(outcome: string, ttftMs: number | undefined): void {
    const at = this.#at();
    this.#sums.requests[at]!++;
    if (outcome === "upstream_error") this.#sums.errors[at]!++;
    if (outcome === "rejected") this.#sums.refused[at]!++;
    if (ttftMs !== undefined) count(this.#ttft, at, ttftMs);
  }

  /** Mean time between the tokens of one answer. */
  paced(itlMs: number): void {
    count(this.#itl, this.#at(), itlMs);
  }

  /** Undefined: the engine told no figure, or it says nothing about the prediction. */
  tokens(
    prompt: number | undefined,
    generated: number | undefined,
    cached: number | undefined,
    predicted: number | undefined,
  ): void {
    const at = this.#at();
    this.#sums.generatedTokens[at]! += generated ?? 0;
    if (prompt === undefined || cached === undefined) return;
    this.#sums.promptTokens[at]! += prompt;
    this.#sums.cachedTokens[at]! += cached;
    if (predicted === undefined) return;
    this.#sums.comparedTokens[at]! += prompt;
    this.#sums.predictedTokens[at]! += Math.min(prompt, predicted);
  }

  /** The last `minutes`, in at most `most` points. */
  columns(minutes: number, most: number): HistoryColumns {
    this.#at();
    const wanted = Math.min(POINTS, Math.max(1, Math.ceil((minutes * 60_000) / STEP_MS)));
    const join = Math.max(1, Math.ceil(wanted / most));
    // Joined points begin at multiples, so that they do not change while they are looked at.
    const from = Math.floor((this.#point + 1 - wanted) / join) * join;
    const groups: number[][] = [];
    for (let first = from; first <= this.#point; first += join) {
      const inGroup = Array.from({ length: join }, (_, i) => first + i);
      groups.push(
        inGroup.filter((point) => point >= this.#first && point <= this.#point && point > this.#point - POINTS),
      );
    }
    return { fromMs: from * STEP_MS, stepMs: join * STEP_MS, columns: this.#columnsOf(groups) };
  }

  close(): void {
    this.#cancel?.();
  }

  #columnsOf(groups: readonly (readonly number[])[]): HistoryColumns["columns"] {
    const places = groups.map((points) => points.map((point) => point % POINTS));
    const sum = (name: Sum): number[] => places.map((at) => at.reduce((total, i) => total + this.#sums[name][i]!, 0));
    const peak = (name: Peak): (number | null)[] =>
      places.map((at) => (at.length === 0 ? null : Math.max(...at.map((i) => this.#peaks[name][i]!))));
    const seconds = places.map((at) => at.reduce((total, i) => total + this.#secondsOf(i), 0));
    const perS = (values: readonly number[]): (number | null)[] =>
      values.map((value, i) => (seconds[i]! > 0 ? round(value / seconds[i]!) : null));
    const share = (part: readonly number[], whole: readonly number[]): (number | null)[] =>
      part.map((value, i) => (whole[i]! > 0 ? round(value / whole[i]!) : null));
    const quantiles = (bins: Uint16Array, q: number): (number | null)[] => places.map((at) => quantile(bins, at, q));
    return {
      requestsPerS: perS(sum("requests")),
      errorsPerS: perS(sum("errors")),
      refusedPerS: perS(sum("refused")),
      generatedPerS: perS(sum("generatedTokens")),
      hitReal: share(sum("cachedTokens"), sum("promptTokens")),
      hitPredicted: share(sum("predictedTokens"), sum("comparedTokens")),
      ttftP50: quantiles(this.#ttft, 0.5),
      ttftP90: quantiles(this.#ttft, 0.9),
      itlP50: quantiles(this.#itl, 0.5),
      itlP90: quantiles(this.#itl, 0.9),
      inFlight: peak("inFlight"),
      queued: peak("queued"),
    };
  }

  /** The current point has only begun. */
  #secondsOf(place: number): number {
    if (place !== this.#point % POINTS) return STEP_MS / 1_000;
    return Math.min(STEP_MS, Math.max(1_000, this.#clock.wall() - this.#point * STEP_MS)) / 1_000;
  }

  #now(): number {
    return Math.floor(this.#clock.wall() / STEP_MS);
  }

  /** The place of now. A wall clock that was set back writes on where it was. */
  #at(): number {
    const now = this.#now();
    if (now > this.#point) this.#advance(now);
    return this.#point % POINTS;
  }

  #advance(now: number): void {
    for (let point = Math.max(this.#point + 1, now - POINTS + 1); point <= now; point++) {
      const at = point % POINTS;
      for (const name of SUMS) this.#sums[name][at] = 0;
      for (const name of PEAKS) this.#peaks[name][at] = 0;
      this.#ttft.fill(0, at * BINS, (at + 1) * BINS);
      this.#itl.fill(0, at * BINS, (at + 1) * BINS);
    }
    this.#point = now;
  }

  #later(): void {
    this.#cancel = this.#clock.after(STEP_MS / 5, () => {
      const at = this.#at();
      const gauges = this.#gauges();
      for (const name of PEAKS)
        this.#peaks[name][at] = Math.max(this.#peaks[name][at]!, Math.min(65_535, gauges[name]));
      this.#later();
    });
  }
}

const round = (value: number): number => Number(value.toPrecision(5));

function count(bins: Uint16Array, at: number, ms: number): void {
  const i = at * BINS + binOf(ms);
  if (bins[i]! < 65_535) bins[i]!++;
}

/** Milliseconds, geometric within a bin. */
function quantile(bins: Uint16Array, places: readonly number[], q: number): number | null {
  const total = new Array<number>(BINS).fill(0);
  for (const at of places) for (let i = 0; i < BINS; i++) total[i]! += bins[at * BINS + i]!;
  const all = total.reduce((a, b) => a + b, 0);
  if (all === 0) return null;
  let under = 0;
  for (let i = 0; i < BINS; i++) {
    const here = total[i]!;
    if (here > 0 && under + here >= q * all) return round(2 ** ((i + (q * all - under) / here) / 2));
    under += here;
  }
  return round(2 ** (BINS / 2));
}
