import { Fifo } from "./fifo.ts";
import type { KvCache } from "./kv-cache.ts";
import type { EngineLimits } from "./limits.ts";
import type { ModelCounters } from "./output.ts";
import type { Reader } from "./reader.ts";
import { decodes, type Run } from "./run.ts";
import { stepsToEnd, tokensPerStep } from "./step.ts";
import type { TierStack } from "./tier-stack.ts";

/** A step of many decodes is told of at the latest after so many. */
const MOST_STEPS = 1 << 20;

/** Work for the next step; each run's `target` says how far it goes. */
export interface Plan {
  readonly work: Run[];
  /** How many steps like this one can be taken before anything but the answers' lengths changes. */
  readonly count: number;
  /** How long the step stands still for reads. */
  readonly stallMs: number;
}

/** Who waits, who runs, and who computes what in the next step. Owns the queues and what requests hold of the cache. */
export class Scheduler {
  /** Tokens that a decode gains a step. */
  readonly rate: number;
  readonly waiting = new Fifo<Run>();
  readonly #ready = new Fifo<Run>();
  #running: Run[] = [];
  readonly #limits: EngineLimits;
  readonly #cache: KvCache;
  readonly #reader: Reader;
  readonly #tiers: TierStack;
  readonly #counters: ModelCounters;
  readonly #onReading: (run: Run, endsAt: number) => void;
  #stallMs = 0;
  /** The first that waits would need less room if cached blocks that it counts on were lost: it starts with a chunk of its prompt. */
  #firstMayChange = false;

  /** @param onReading told of each run whose blocks are being read, until `ready()` is called for it */
  constructor(
    limits: EngineLimits,
    parts: {
      readonly cache: KvCache;
      readonly reader: Reader;
      readonly tiers: TierStack;
      readonly counters: ModelCounters;
      readonly onReading: (run: Run, endsAt: number) => void;
    },
  ) {
    this.rate = tokensPerStep(limits.speculative);
    this.#limits = limits;
    this.#cache = parts.cache;
    this.#reader = parts.reader;
    this.#tiers = parts.tiers;
    this.#counters = parts.counters;
    this.#onReading = parts.onReading;
  }

  get running(): number {
    return this.#running.length;
  }

  /** No place is free for another answer. */
  get full(): boolean {
    return this.#running.length >= this.#limits.maxSequences;
  }

  /** A run's blocks are read. */
  ready(run: Run): void {
    this.store(run, run.computed);
    run.state = "ready";
    this.#ready.push(run);
  }

  /** Choose the work of the next step, under the token budget. */
  plan(at: number): Plan | undefined {
    const work: Run[] = [];
    this.#firstMayChange = false;
    const preemptionsBefore = this.#counters.preemptions;
    const apart = this.#limits.batching === "prefill-first";
    const all = this.#limits.maxBatchedTokens;
    const left = this.#planRunning(work, all, apart ? (run) => !decodes(run) : undefined);
    if (this.#counters.preemptions === preemptionsBefore) this.#admit(at, work, left);
    if (apart && work.length === 0) this.#planRunning(work, all, decodes);
    if (work.length === 0) return undefined;
    const stallMs = this.#stallMs;
    this.#stallMs = 0;
    const equal = stallMs === 0 && this.#counters.preemptions === preemptionsBefore;
    return { work, stallMs, count: equal ? this.#equalSteps(work) : 1 };
  }

  /** A decode begins a step for which there is surely room. */
  begin(run: Run): void {
    run.target = run.computed + this.gain(run, 1);
    this.#cache.grow(run.sequence, run.target);
    this.store(run, run.target);
  }

  /** Those that ended with a step leave. */
  sweep(): void {
    this.#running = this.#running.filter((run) => run.state === "running");
  }

  /** A run leaves in the midst of things. */
  remove(run: Run): void {
    if (run.state === "waiting") this.waiting.remove(run);
    if (run.state === "ready") this.#ready.remove(run);
    if (run.state === "running") this.#running.splice(this.#running.indexOf(run), 1);
  }

  /** Tokens that a decode gains in so many steps. */
  gain(run: Run, steps: number): number {
    return Math.min(run.outputTokens - run.generated, Math.floor(run.credit + this.rate * steps + 1e-9));
  }

  /** Give running sequences their share. @returns what is left of the budget */
  #planRunning(work: Run[], budget: number, which: ((run: Run) => boolean) | undefined): number {
    let left = budget;
    for (let i = 0; i < this.#running.length && left > 0; i++) {
      const run = this.#running[i]!;
      if (which !== undefined && !which(run)) continue;
      const target = decodes(run) ? run.computed + this.gain(run, 1) : this.#chunk(run, left);
      if (!this.#makeRoom(run, target)) break;
      left -= target - run.computed;
      run.target = target;
      this.#storeEarly(run);
      work.push(run);
    }
    return left;
  }

  #chunk(run: Run, budget: number): number {
    return Math.min(run.sequence.length, run.computed + budget);
  }

  /** In how many steps from now nothing can change but the answers' lengths. */
  #equalSteps(work: readonly Run[]): number {
    if (work.length !== this.#running.length) return 1;
    for (const run of work) if (run.sequence.tokens !== undefined || !decodes(run)) return 1;
    const most = this.#firstMayChange ? 0 : this.#cache.free;
    const fits = (steps: number): boolean => {
      let blocks = 0;
      for (const run of work) blocks += this.#cache.needs(run.sequence, run.computed + this.gain(run, steps));
      return blocks <= most;
    };
    let beyond = Math.min(MOST_STEPS, stepsToEnd(work, this.rate));
    if (beyond === 1 || fits(beyond)) return beyond;
    let least = 1;
    while (least + 1 < beyond) {
      const middle = (least + beyond) >> 1;
      if (fits(middle)) least = middle;
      else beyond = middle;
    }
    return least;
  }

  /** Give a running sequence its blocks, sending the youngest others back to the queue. False: it was sent back itself. */
  #makeRoom(run: Run, target: number): boolean {
    while (!this.#cache.grow(run.sequence, target)) {
      const victim = this.#running.pop()!;
      this.#cache.release(victim.sequence);
      victim.computed = 0;
      victim.state = "waiting";
      this.waiting.putBack(victim);
      this.#counters.preemptions++;
      if (victim === run) return false;
    }
    return true;
  }

  #admit(at: number, work: Run[], budgetLeft: number): void {
    let budget = budgetLeft;
    while (budget > 0 && this.#running.length < this.#limits.maxSequences) {
      const run = this.#ready.shift() ?? this.#admitFirst(at, budget);
      if (run === undefined) return;
      if (run.state === "reading") continue;
      run.state = "running";
      this.#running.push(run);
      run.target = this.#chunk(run, budget);
      budget -= run.target - run.computed;
      this.#storeEarly(run);
      work.push(run);
    }
  }

  /** Give the first that waits its blocks. @returns undefined when none waits or there is no room */
  #admitFirst(at: number, budget: number): Run | undefined {
    const run = this.waiting.first;
    if (run === undefined) return undefined;
    const { sequence } = run;
    const match = this.#cache.match(sequence);
    const found = this.#reader.plan(run, match.tokens);
    const tokens = match.tokens + found.tierTokens;
    const room = found.reads ? sequence.length : Math.min(sequence.length, tokens + budget);
    if (!this.#cache.admit(sequence, match, room)) {
      this.#firstMayChange = budget < sequence.length && this.#cache.losable(match);
      return undefined;
    }
    this.waiting.shift();
    if (run.use === undefined) {
      run.scheduledAt = at;
      const use = this.#reader.useOf(run, match, found);
      run.use = this.#limits.prefixCaching ? use : { ...use, createdCacheTokens: 0 };
      this.#counters.queriedTokens += sequence.promptTokens;
      this.#counters.hitTokens += match.tokens;
      this.#counters.tierHitTokens += found.tierTokens;
      this.#counters.transferredTokens += found.transferTokens;
    }
    this.#tiers.reused(sequence, match.tokens / this.#limits.blockTokens);
    run.computed = tokens + found.transferTokens;
    if (!found.reads) return run;
    const { endsAt, stallMs } = this.#reader.start(at, run, found);
    this.#stallMs += stallMs;
    if (endsAt <= at) {
      this.store(run, run.computed);
      return run;
    }
    run.state = "reading";
    this.#onReading(run, endsAt);
    return run;
  }

  /** vLLM names blocks when it schedules the tokens that fill them, SGLang when those are computed. */
  #storeEarly(run: Run): void {
    if (this.#limits.eviction !== "sglang") this.store(run, run.target);
  }

  /** Make what the first `target` tokens fill findable, as far as the engine stores it before the request's end. */
  store(run: Run, target: number): void {
    if (!this.#limits.prefixCaching) return;
    const { sequence } = run;
    const known = this.#limits.generatedBlocks === "as-filled" ? sequence.length : sequence.promptTokens;
    this.#cache.store(sequence, Math.min(target, known));
  }
}
