import { type BlockNamer, type CacheEvent, newSequence, PrefixCache, type Sequence } from "./prefix-cache.ts";
import { type EngineProfile, stepDurationMs } from "./profile.ts";

/** A request as the model sees it: what it will answer is settled beforehand. */
export interface ModelRequest {
  readonly id: string;
  /** At least one token id. */
  readonly prompt: readonly number[];
  /** Token ids that will be generated; at least one. */
  readonly output: readonly number[];
  /** Why it ends after the last of them. */
  readonly finish: "stop" | "length";
  readonly lora: string;
  readonly salt: string;
}

export interface EngineLimits {
  /** KV blocks that may be used. */
  readonly blocks: number;
  readonly blockTokens: number;
  /** Tokens computed in one step, prompts and answers together. */
  readonly maxBatchedTokens: number;
  readonly maxSequences: number;
  readonly prefixCaching: boolean;
  /** `as-filled` (vLLM): a block of generated tokens is stored once full. `at-finish` (SGLang): with the request's end. */
  readonly generatedBlocks: "as-filled" | "at-finish";
  /** True (SGLang): a reset is published at once. False (vLLM): with the next step. */
  readonly publishesWhenIdle: boolean;
}

/** What happens, with its time in milliseconds. Times never decrease. */
export type ModelOutput =
  | { readonly type: "events"; readonly at: number; readonly events: readonly CacheEvent[] }
  | {
      readonly type: "token";
      readonly at: number;
      readonly id: string;
      readonly token: number;
      /** 0 for the first token. */
      readonly index: number;
      readonly use: CacheUse;
    }
  | {
      readonly type: "finished";
      readonly at: number;
      readonly id: string;
      readonly reason: "stop" | "length";
      readonly use: CacheUse;
    };

/** What a request found in the cache; settled when it is first scheduled. */
export interface CacheUse {
  readonly cachedTokens: number;
  /** Prompt tokens in blocks that this request stored. */
  readonly createdCacheTokens: number;
}

/** Totals since the start. */
export interface ModelCounters {
  steps: number;
  queriedTokens: number;
  hitTokens: number;
  promptTokens: number;
  generatedTokens: number;
  preemptions: number;
  finished: { stop: number; length: number; abort: number };
}

interface Running {
  readonly request: ModelRequest;
  readonly sequence: Sequence;
  /** Tokens whose keys and values are computed. */
  computed: number;
  generated: number;
  /** Undefined until it is first scheduled. */
  use: CacheUse | undefined;
  live: boolean;
}

interface Step {
  readonly endsAt: number;
  readonly work: readonly { readonly run: Running; readonly target: number }[];
}

/**
 * An inference engine in the caller's time: waiting queue, continuous batching with chunked prefill under a token budget,
 * prefix cache, preemption when blocks run out. Pure: the same calls give the same outputs.
 *
 * Call `advance(now)` whenever `nextAt` has come; `submit`, `abort` and `reset` take the present time, which never runs back.
 */
export class EngineModel {
  readonly limits: EngineLimits;
  readonly counters: ModelCounters = {
    steps: 0,
    queriedTokens: 0,
    hitTokens: 0,
    promptTokens: 0,
    generatedTokens: 0,
    preemptions: 0,
    finished: { stop: 0, length: 0, abort: 0 },
  };
  /** Factor on every step's duration from the next step on; 1 is normal. */
  slowdown = 1;
  readonly #profile: EngineProfile;
  readonly #cache: PrefixCache;
  readonly #byId = new Map<string, Running>();
  #waiting: Running[] = [];
  #running: Running[] = [];
  #step: Step | undefined;
  #outputs: ModelOutput[] = [];
  #held: Sequence | undefined;

  constructor(limits: EngineLimits, profile: EngineProfile, namer: BlockNamer) {
    this.limits = limits;
    this.#profile = profile;
    this.#cache = new PrefixCache({ ...limits, namer, enabled: limits.prefixCaching });
  }

  get running(): number {
    return this.#running.length;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  get usedBlocks(): number {
    return this.#cache.pool.used;
  }

  get cachedBlocks(): number {
    return this.#cache.pool.cached;
  }

  /** When `advance` is next due; undefined while nothing can happen by itself. */
  get nextAt(): number | undefined {
    return this.#step?.endsAt;
  }

  /**
   * @throws RangeError for an empty prompt or answer, a known id, or a request that can never fit
   */
  submit(now: number, request: ModelRequest): void {
    const most = request.prompt.length + request.output.length - 1;
    if (request.prompt.length === 0 || request.output.length === 0) throw new RangeError("a request needs tokens");
    if (this.#byId.has(request.id)) throw new RangeError(`request ${request.id} is known already`);
    if (this.#cache.blocksFor(most) > this.limits.blocks) {
      throw new RangeError(`${most} tokens do not fit into ${this.limits.blocks} blocks of ${this.limits.blockTokens}`);
    }
    const sequence = newSequence(request.prompt, request.lora, request.salt);
    const run: Running = { request, sequence, computed: 0, generated: 0, use: undefined, live: true };
    this.#byId.set(request.id, run);
    this.#waiting.push(run);
    this.#run(now);
  }

  /** Forget a request; its blocks are free at once. Unknown ids are none. */
  abort(now: number, id: string): void {
    const run = this.#byId.get(id);
    if (run === undefined) return;
    this.counters.finished.abort++;
    this.#drop(run);
    this.#run(now);
  }

  /** Empty the prefix cache. False while requests hold blocks. */
  reset(now: number): boolean {
    const done = this.#cache.reset();
    if (done && this.limits.publishesWhenIdle && this.#step === undefined) this.#publish(now);
    return done;
  }

  /** Fault: take `count` free blocks away (all when undefined), or give them back (0). */
  holdBlocks(now: number, count: number | undefined): void {
    if (this.#held !== undefined) this.#cache.release(this.#held);
    const held = newSequence([], "", "");
    const blocks = Math.min(count ?? this.limits.blocks, this.#cache.pool.free);
    this.#cache.grow(held, blocks * this.limits.blockTokens);
    this.#held = held;
    this.#run(now);
  }

  /** Do all that is due by `now`. @returns what came of it since the last call, in order */
  advance(now: number): readonly ModelOutput[] {
    this.#run(now);
    const outputs = this.#outputs;
    this.#outputs = [];
    return outputs;
  }

  #run(now: number): void {
    let at = now;
    while (true) {
      if (this.#step !== undefined) {
        if (this.#step.endsAt > now) return;
        at = this.#step.endsAt;
        this.#finishStep(this.#step);
      }
      this.#step = this.#startStep(at);
      if (this.#step === undefined) return;
    }
  }

  /** Choose the work of the next step: running sequences first, then waiting ones, under the token budget. */
  #startStep(at: number): Step | undefined {
    const work: { run: Running; target: number }[] = [];
    let budget = this.limits.maxBatchedTokens;
    const preemptionsBefore = this.counters.preemptions;
    for (let i = 0; i < this.#running.length && budget > 0; i++) {
      const run = this.#running[i]!;
      const target = Math.min(run.sequence.tokens.length, run.computed + budget);
      if (!this.#makeRoom(run, target)) break;
      budget -= target - run.computed;
      this.#store(run, target);
      work.push({ run, target });
    }
    if (this.counters.preemptions === preemptionsBefore) this.#admit(work, budget);
    if (work.length === 0) return undefined;
    this.counters.steps++;
    return { endsAt: at + this.slowdown * stepDurationMs(this.#profile, measure(work)), work };
  }

  /** Give a running sequence its blocks, sending the youngest others back to the queue. False: it was sent back itself. */
  #makeRoom(run: Running, target: number): boolean {
    while (!this.#cache.grow(run.sequence, target)) {
      const victim = this.#running.at(-1)!;
      this.#running.pop();
      this.#cache.release(victim.sequence);
      victim.computed = 0;
      this.#waiting.unshift(victim);
      this.counters.preemptions++;
      if (victim === run) return false;
    }
    return true;
  }

  #admit(work: { run: Running; target: number }[], budgetLeft: number): void {
    let budget = budgetLeft;
    while (budget > 0 && this.#waiting.length > 0 && this.#running.length < this.limits.maxSequences) {
      const run = this.#waiting[0]!;
      const hits = this.#cache.match(run.sequence);
      const hitTokens = hits.length * this.limits.blockTokens;
      const target = Math.min(run.sequence.tokens.length, hitTokens + budget);
      if (!this.#cache.admit(run.sequence, hits, target)) return;
      this.#waiting.shift();
      this.#running.push(run);
      run.computed = hitTokens;
      if (run.use === undefined) this.#count(run, hitTokens);
      budget -= target - hitTokens;
      this.#store(run, target);
      work.push({ run, target });
    }
  }

  #count(run: Running, cachedTokens: number): void {
    const prompt = run.request.prompt.length;
    const whole = Math.floor(prompt / this.limits.blockTokens) * this.limits.blockTokens;
    run.use = { cachedTokens, createdCacheTokens: this.limits.prefixCaching ? whole - cachedTokens : 0 };
    this.counters.queriedTokens += prompt;
    this.counters.hitTokens += cachedTokens;
  }

  /** vLLM names blocks when it schedules the tokens that fill them, not when those are computed. */
  #store(run: Running, target: number): void {
    const upTo = this.limits.generatedBlocks === "as-filled" ? target : Math.min(target, run.request.prompt.length);
    this.#cache.store(run.sequence, upTo);
  }

  #finishStep(step: Step): void {
    const at = step.endsAt;
    this.#step = undefined;
    const told: ModelOutput[] = [];
    for (const { run, target } of step.work) {
      if (!run.live || !this.#running.includes(run)) continue;
      run.computed = target;
      if (target < run.sequence.tokens.length) continue;
      this.#generate(at, run, told);
    }
    this.#publish(at);
    this.#outputs.push(...told);
  }

  #generate(at: number, run: Running, told: ModelOutput[]): void {
    const { id, output, finish, prompt } = run.request;
    if (run.generated === 0) this.counters.promptTokens += prompt.length;
    const index = run.generated++;
    const token = output[index]!;
    this.counters.generatedTokens++;
    run.sequence.tokens.push(token);
    const use = run.use ?? { cachedTokens: 0, createdCacheTokens: 0 };
    told.push({ type: "token", at, id, token, index, use });
    if (run.generated < output.length) return;
    // The last token was never fed back: it has no keys and values.
    this.#cache.store(run.sequence, run.computed);
    this.counters.finished[finish]++;
    this.#drop(run);
    told.push({ type: "finished", at, id, reason: finish, use });
  }

  #drop(run: Running): void {
    run.live = false;
    this.#byId.delete(run.request.id);
    this.#waiting = this.#waiting.filter((other) => other !== run);
    this.#running = this.#running.filter((other) => other !== run);
    this.#cache.release(run.sequence);
  }

  #publish(at: number): void {
    const events = this.#cache.takeEvents();
    if (events.length > 0) this.#outputs.push({ type: "events", at, events });
  }
}

function measure(work: readonly { readonly run: Running; readonly target: number }[]) {
  let prefillTokens = 0;
  let decodeSequences = 0;
  let contextTokens = 0;
  for (const { run, target } of work) {
    if (run.generated > 0 && target - run.computed === 1) {
      decodeSequences++;
      contextTokens += target;
    } else {
      prefillTokens += target - run.computed;
    }
  }
  return { prefillTokens, decodeSequences, contextTokens };
}
