import type { PredictionVerdict } from "../core/prefix-knowledge.ts";
import type { CostTerms } from "../routing/decision.ts";
import { PackedDecisions } from "./packed-decisions.ts";

/** While it is being written. */
export type Writable<T> = { -readonly [K in keyof T]: T[K] };

/** A worker, why it was chosen, and among which. */
export interface ChosenRecord {
  readonly worker: string;
  readonly node: string;
  readonly reason: string;
  readonly predictedCachedTokens: number;
  readonly candidates: readonly {
    readonly worker: string;
    readonly score: number;
    readonly ttftMs: number;
    readonly terms: CostTerms;
    readonly othersMs: number;
    readonly cachedTokens: number;
    readonly uncachedTokens: number;
    readonly inFlight: number;
  }[];
}

/** One try of a request on one worker, or on two. */
export interface AttemptRecord extends ChosenRecord {
  /** Of a split request: who computed the prompt; the rest is the decode worker. */
  readonly prefill?: ChosenRecord;
  /** Why it was computed by one worker although there are pairs. */
  readonly whole?: string;
  /** Workers that take requests and were passed over because of their circuit breakers, with the reason; absent: none. */
  readonly heldBack?: Readonly<Record<string, string>>;
  /** It went on with a stream of which the client had so many parts: each about a token. */
  continues?: number;
  /** Why it did not stay there; absent for the one that answered. */
  failed?: string;
}

/** One model's turn in a cascade. */
export interface CascadeRecord {
  /** The name that the client asked for. */
  readonly chain: string;
  readonly model: string;
  /** Its place among the models, from 1, and how many there are. */
  readonly step: number;
  readonly steps: number;
  /** The least mean log probability with which its answer is kept; absent for the last. */
  readonly threshold?: number;
  /** What was seen: mean log probability, and tokens that counted. */
  mean?: number;
  tokens?: number;
  /** `last`: it is not judged. Absent while it runs. */
  result?: "kept" | "escalated" | "failed" | "skipped" | "last";
  why?: string;
  /** Of an earlier step that was asked: how it was decided, and what came of it. */
  readonly decision?: Omit<DecisionRecord, "cascade">;
  /** The steps before, in their order. */
  readonly earlier?: readonly CascadeRecord[];
}

/** What was decided for a request, why, and what came of it. `GET /v1/cgn/decisions/ID`. */
export interface DecisionRecord {
  readonly id: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly model: string;
  readonly path: string;
  readonly stream: boolean;
  /** Name of the key or token. */
  readonly subject?: string;
  /** Trace that the request belongs to. */
  readonly traceId?: string;
  /** It was one step of a cascade. */
  cascade?: CascadeRecord;
  policy: string;
  promptBytes?: number;
  promptTokens?: number;
  /** Why it was handed to another cluster; absent where it was not. */
  readonly handedOver?: string;
  /** Why the prompt was not matched, where it was not. */
  unmatched?: string;
  /** How long it waited for its model to be loaded; absent where it did not. */
  readonly waitedMs?: number;
  /** How long it waited for a place among the requests that run; absent where it did not. */
  readonly queuedMs?: number;
  /** Microseconds from the body's last byte to the choice. */
  decisionUs?: number;
  attempts: readonly AttemptRecord[];
  outcome?: {
    readonly result: string;
    readonly status?: number;
    readonly error?: string;
    readonly ttftMs?: number;
    readonly totalMs: number;
    readonly promptTokens?: number;
    readonly completionTokens?: number;
    readonly cachedTokens?: number;
    /** Whether the last attempt's prediction was right, and if not why; told some seconds after the answer at most. */
    prediction?: PredictionVerdict;
  };
}

/** The last decisions, in a ring. Holds figures and ids only, never prompts. */
export class DecisionLog {
  readonly #capacity: number;
  /** Undefined: it is packed, or there is none yet. */
  readonly #ring: (DecisionRecord | undefined)[];
  readonly #packed: PackedDecisions;
  #next = 0;
  #count = 0;

  constructor(capacity = 2_000) {
    this.#capacity = capacity;
    this.#ring = new Array<DecisionRecord | undefined>(capacity).fill(undefined);
    this.#packed = new PackedDecisions(capacity);
  }

  add(record: DecisionRecord): void {
    this.#ring[this.#next] = record;
    this.#next = (this.#next + 1) % this.#capacity;
    this.#count = Math.min(this.#count + 1, this.#capacity);
  }

  /** Nothing of it will change any more. */
  settled(record: DecisionRecord): void {
    // Those that run are the newest.
    for (let k = 1; k <= this.#count; k++) {
      const at = this.#at(k);
      if (this.#ring[at] !== record) continue;
      if (this.#packed.put(at, record)) this.#ring[at] = undefined;
      return;
    }
  }

  /** Newest first. */
  latest(limit: number): DecisionRecord[] {
    const out: DecisionRecord[] = [];
    for (let k = 1; k <= this.#count && out.length < limit; k++) out.push(this.#get(this.#at(k)));
    return out;
  }

  /** The newest of that id: clients may use one twice. */
  find(id: string): DecisionRecord | undefined {
    for (let k = 1; k <= this.#count; k++) {
      const at = this.#at(k);
      if ((this.#ring[at]?.id ?? this.#packed.idOf(at)) === id) return this.#get(at);
    }
    return undefined;
  }

  /** Where the newest but `k - 1` is. */
  #at(k: number): number {
    return (this.#next - k + this.#capacity) % this.#capacity;
  }

  #get(at: number): DecisionRecord {
    return this.#ring[at] ?? this.#packed.get(at);
  }
}
