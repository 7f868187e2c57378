import type { Subject } from "../access/subject.ts";
import { type Usage, UsageLedger } from "../access/usage-ledger.ts";
import type { CounterCell } from "../telemetry/cells.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { DecisionRecord } from "./decisions.ts";
import type { Outcome } from "./router-metrics.ts";

/** Subjects that have a label of their own in metrics; the rest is `other`. Tokens may name any number of them. */
const MAX_LABELS = 200;

interface TokenCells {
  readonly prompt: CounterCell;
  readonly cached: CounterCell;
  readonly completion: CounterCell;
}

/** Requests and tokens by who asked: as metrics with a bounded number of labels, and as a ledger. */
export class SubjectMetrics {
  readonly #metrics: Metrics;
  readonly #ledger = new UsageLedger();
  readonly #labels = new Set<string>();
  readonly #ended = new Map<string, CounterCell>();
  readonly #tokens = new Map<string, TokenCells>();

  constructor(metrics: Metrics) {
    this.#metrics = metrics;
  }

  ended(model: string, outcome: Outcome, subject: Subject): void {
    const label = this.#labelOf(subject);
    const key = `${model}\0${outcome}\0${label}`;
    let cell = this.#ended.get(key);
    if (cell === undefined) {
      cell = this.#metrics.counter("cgn_router_requests_total", model, label, outcome);
      this.#ended.set(key, cell);
    }
    cell.inc();
    const row = this.#ledger.of(subject);
    row.requests++;
    if (outcome !== "ok") row.failed++;
  }

  /** Write down what a request used. */
  used(subject: Subject, { at, outcome }: DecisionRecord): void {
    const row = this.#ledger.of(subject);
    row.lastAt = at;
    if (outcome?.promptTokens === undefined) return;
    const label = this.#labelOf(subject);
    const { promptTokens, cachedTokens = 0, completionTokens = 0 } = outcome;
    row.promptTokens += promptTokens;
    row.cachedTokens += cachedTokens;
    row.completionTokens += completionTokens;
    const cells = this.#tokensOf(label);
    cells.prompt.inc(promptTokens);
    cells.cached.inc(cachedTokens);
    cells.completion.inc(completionTokens);
  }

  usage(): readonly Usage[] {
    return this.#ledger.rows();
  }

  #tokensOf(label: string): TokenCells {
    let cells = this.#tokens.get(label);
    if (cells === undefined) {
      const of = (kind: string): CounterCell => this.#metrics.counter("cgn_router_subject_tokens_total", label, kind);
      this.#tokens.set(label, (cells = { prompt: of("prompt"), cached: of("cached"), completion: of("completion") }));
    }
    return cells;
  }

  #labelOf({ name }: Subject): string {
    if (this.#labels.has(name)) return name;
    if (this.#labels.size >= MAX_LABELS) return "other";
    this.#labels.add(name);
    return name;
  }
}
