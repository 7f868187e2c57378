import type { PredictionVerdict } from "../core/prefix-knowledge.ts";
import type { AttemptRecord, ChosenRecord, DecisionRecord, Writable } from "./decisions.ts";

type Candidate = ChosenRecord["candidates"][number];
type Outcome = NonNullable<DecisionRecord["outcome"]>;

/** Figures of a record, in the order of `putFigures()`; NaN where it has none. */
const FIGURES = 15;
const COUNT = FIGURES - 1;
/** Figures of a candidate. */
const PER_CANDIDATE = 11;
/** Texts of a record, before the names of its candidates. */
const TEXTS = 14;
/** A row has room for so many candidates at first, and for twice as many as soon as one needs it, up to the second number. */
const ROOM = 4;
const MAX_ROOM = 64;

const figuresOf = (room: number): number => FIGURES + room * PER_CANDIDATE;
const textsOf = (room: number): number => TEXTS + room;

/**
 * Decisions of which nothing more comes, as rows of figures and texts in arrays that are made once. As objects, two dozen each, they outlived the
 * collections of young garbage: of all that a request made they cost the most to collect (measured: 9 % of its CPU time, and 30 MB).
 */
export class PackedDecisions {
  readonly #rows: number;
  #room = ROOM;
  #figures: Float64Array;
  #texts: (string | undefined)[];

  constructor(rows: number) {
    this.#rows = rows;
    this.#figures = new Float64Array(rows * figuresOf(ROOM));
    this.#texts = new Array<string | undefined>(rows * textsOf(ROOM)).fill(undefined);
  }

  /** @returns whether it fits: not one that was tried more often, was split, failed, or is part of a cascade */
  put(row: number, record: DecisionRecord): boolean {
    const { attempts, outcome, cascade, handedOver } = record;
    const attempt = attempts[0];
    if (attempt === undefined || attempts.length > 1 || outcome === undefined || outcome.error !== undefined)
      return false;
    if (cascade !== undefined || handedOver !== undefined || !isPlain(attempt)) return false;
    const { candidates } = attempt;
    if (!this.#makeRoom(candidates.length)) return false;
    const [figures, texts] = [row * figuresOf(this.#room), row * textsOf(this.#room)];
    putTexts(this.#texts, texts, record, attempt, outcome);
    putFigures(this.#figures, figures, record, attempt, outcome);
    for (let i = 0; i < candidates.length; i++) {
      this.#texts[texts + TEXTS + i] = candidates[i]!.worker;
      putCandidate(this.#figures, figures + FIGURES + i * PER_CANDIDATE, candidates[i]!);
    }
    return true;
  }

  idOf(row: number): string | undefined {
    return this.#texts[row * textsOf(this.#room)];
  }

  get(row: number): DecisionRecord {
    const t = this.#texts.slice(row * textsOf(this.#room), (row + 1) * textsOf(this.#room));
    const f = this.#figures.subarray(row * figuresOf(this.#room), (row + 1) * figuresOf(this.#room));
    const [id = "", model = "", path = "", policy = "", subject, traceId, unmatched] = t;
    return {
      ...{ id, at: f[0]!, model, path, stream: f[1] === 1, policy },
      attempts: [attemptOf(f, t)],
      ...given({ subject, traceId, unmatched }),
      ...told({ promptBytes: f[2], waitedMs: f[3], queuedMs: f[4], promptTokens: f[5], decisionUs: f[6] }),
      outcome: outcomeOf(f, t),
    };
  }

  #makeRoom(candidates: number): boolean {
    if (candidates <= this.#room) return true;
    if (candidates > MAX_ROOM) return false;
    const before = this.#room;
    let room = before;
    while (room < candidates) room *= 2;
    const figures = new Float64Array(this.#rows * figuresOf(room));
    const texts = new Array<string | undefined>(this.#rows * textsOf(room)).fill(undefined);
    for (let row = 0; row < this.#rows; row++) {
      const [from, to] = [row * figuresOf(before), row * figuresOf(room)];
      figures.set(this.#figures.subarray(from, from + figuresOf(before)), to);
      for (let i = 0; i < textsOf(before); i++) texts[row * textsOf(room) + i] = this.#texts[row * textsOf(before) + i];
    }
    this.#figures = figures;
    this.#texts = texts;
    this.#room = room;
    return true;
  }
}

function isPlain({ prefill, heldBack, continues, failed }: AttemptRecord): boolean {
  return prefill === undefined && heldBack === undefined && continues === undefined && failed === undefined;
}

function putTexts(
  t: (string | undefined)[],
  at: number,
  record: DecisionRecord,
  { worker, node, reason, whole }: AttemptRecord,
  { result, prediction }: Outcome,
): void {
  t[at] = record.id;
  t[at + 1] = record.model;
  t[at + 2] = record.path;
  t[at + 3] = record.policy;
  t[at + 4] = record.subject;
  t[at + 5] = record.traceId;
  t[at + 6] = record.unmatched;
  t[at + 7] = worker;
  t[at + 8] = node;
  t[at + 9] = reason;
  t[at + 10] = whole;
  t[at + 11] = result;
  t[at + 12] = prediction?.result;
  t[at + 13] = prediction?.reason;
}

const NONE = Number.NaN;

function putFigures(
  f: Float64Array,
  at: number,
  record: DecisionRecord,
  { predictedCachedTokens, candidates }: AttemptRecord,
  outcome: Outcome,
): void {
  f[at] = record.at;
  f[at + 1] = record.stream ? 1 : 0;
  f[at + 2] = record.promptBytes ?? NONE;
  f[at + 3] = record.waitedMs ?? NONE;
  f[at + 4] = record.queuedMs ?? NONE;
  f[at + 5] = record.promptTokens ?? NONE;
  f[at + 6] = record.decisionUs ?? NONE;
  f[at + 7] = predictedCachedTokens;
  f[at + 8] = outcome.status ?? NONE;
  f[at + 9] = outcome.ttftMs ?? NONE;
  f[at + 10] = outcome.totalMs;
  f[at + 11] = outcome.promptTokens ?? NONE;
  f[at + 12] = outcome.completionTokens ?? NONE;
  f[at + 13] = outcome.cachedTokens ?? NONE;
  f[at + COUNT] = candidates.length;
}

function putCandidate(f: Float64Array, at: number, each: Candidate): void {
  const { terms } = each;
  f[at] = each.score;
  f[at + 1] = each.ttftMs;
  f[at + 2] = each.othersMs;
  f[at + 3] = each.cachedTokens;
  f[at + 4] = each.uncachedTokens;
  f[at + 5] = each.inFlight;
  f[at + 6] = terms.baseMs;
  f[at + 7] = terms.waitMs;
  f[at + 8] = terms.fetchMs;
  f[at + 9] = terms.prefillMs;
  f[at + 10] = terms.interferenceMs;
}

function attemptOf(f: Float64Array, t: readonly (string | undefined)[]): AttemptRecord {
  const [worker = "", node = "", reason = "", whole] = t.slice(7, 11);
  const candidates: Candidate[] = [];
  for (let i = 0; i < f[COUNT]!; i++) {
    const [score, ttftMs, othersMs, cachedTokens, uncachedTokens, inFlight, ...terms] = f.subarray(
      FIGURES + i * PER_CANDIDATE,
      FIGURES + (i + 1) * PER_CANDIDATE,
    ) as unknown as Figures;
    const [baseMs, waitMs, fetchMs, prefillMs, interferenceMs] = terms;
    candidates.push({
      ...{ worker: t[TEXTS + i] ?? "", score, ttftMs },
      terms: { baseMs, waitMs, fetchMs, prefillMs, interferenceMs },
      ...{ othersMs, cachedTokens, uncachedTokens, inFlight },
    });
  }
  return { worker, node, reason, predictedCachedTokens: f[7]!, candidates, ...given({ whole }) };
}

type Figures = [number, number, number, number, number, number, number, number, number, number, number];

function outcomeOf(f: Float64Array, t: readonly (string | undefined)[]): Outcome {
  const [result = "", verdict, reason = ""] = t.slice(11, 14);
  const outcome: Writable<Outcome> = { result, totalMs: f[10]! };
  Object.assign(outcome, told({ status: f[8], ttftMs: f[9] }));
  Object.assign(outcome, told({ promptTokens: f[11], completionTokens: f[12], cachedTokens: f[13] }));
  if (verdict !== undefined) outcome.prediction = { result: verdict as PredictionVerdict["result"], reason };
  return outcome;
}

/** Those that there are. */
function given<K extends string>(texts: Readonly<Record<K, string | undefined>>): Partial<Record<K, string>> {
  return Object.fromEntries(Object.entries(texts).filter(([, text]) => text !== undefined)) as Partial<
    Record<K, string>
  >;
}

function told<K extends string>(figures: Readonly<Record<K, number | undefined>>): Partial<Record<K, number>> {
  const all = Object.entries(figures) as [K, number][];
  return Object.fromEntries(all.filter(([, figure]) => !Number.isNaN(figure))) as Partial<Record<K, number>>;
}
