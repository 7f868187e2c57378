import type { BlockNamer } from "./cache-event.ts";
import { CacheNews } from "./cache-news.ts";
import { Gaps } from "./gaps.ts";
import type { KvCache } from "./kv-cache.ts";
import type { EngineLimits } from "./limits.ts";
import { makeCache } from "./make-cache.ts";
import type { ModelCounters, ModelOutput } from "./output.ts";
import type { EngineProfile } from "./profile.ts";
import { Reader } from "./reader.ts";
import { type AnyRequest, isKeyed } from "./request.ts";
import { decodes, newRun, type Run, timingOf } from "./run.ts";
import { Scheduler } from "./scheduler.ts";
import { emptySequence, type Sequence } from "./sequence.ts";
import { durationOf, endOf, type Step, stepsBegun } from "./step.ts";
import { TierStack } from "./tier-stack.ts";
import { Timers } from "./timers.ts";

export type { EngineLimits, SlotLimits, TierLimits } from "./limits.ts";
export type { CacheUse, ModelCounters, ModelOutput, Timing } from "./output.ts";
export type { AnyRequest, BlockKey, KeyedRequest, ModelRequest } from "./request.ts";

/** NIXL's lease in vLLM. */
export const HOLD_MS = 480_000;
/**
 * An inference engine in the caller's time: waiting queue, continuous batching with chunked prefill under a token budget,
 * prefix cache, tiers behind it, preemption when blocks run out, prefill → decode. Pure: the same calls give the same outputs.
 *
 * Call `advance(now)` whenever `nextAt` has come; `submit`, `abort`, `release` and `reset` take the present time, which never runs back.
 * While nothing can change, many decode steps of keyed requests are taken at once: their times stay those of single steps, and only
 * the loss of cached blocks to growing answers is told at the end of them.
 */
export class EngineModel {
  readonly limits: EngineLimits;
  readonly counters: ModelCounters = {
    steps: 0,
    queriedTokens: 0,
    hitTokens: 0,
    tierHitTokens: 0,
    transferredTokens: 0,
    promptTokens: 0,
    generatedTokens: 0,
    computedTokens: 0,
    preemptions: 0,
    busyMs: 0,
    finished: { stop: 0, length: 0, abort: 0 },
  };
  /** Times between the tokens of each answer. */
  readonly gaps = new Gaps();
  /** Factor on every step's duration from the next step on; 1 is normal. */
  slowdown = 1;
  readonly #profile: EngineProfile;
  readonly #cache: KvCache;
  readonly #tiers: TierStack;
  readonly #news: CacheNews;
  readonly #scheduler: Scheduler;
  readonly #byId = new Map<string, Run>();
  readonly #timers = new Timers<Run>();
  #step: Step | undefined;
  /** Requests that are over and whose blocks wait for a decode engine. */
  #held = 0;
  #outputs: ModelOutput[] = [];
  /** All that was due by then is done. */
  #doneUntil = Number.NEGATIVE_INFINITY;
  #faultHolds: Sequence | undefined;

  constructor(limits: EngineLimits, profile: EngineProfile, namer: BlockNamer) {
    this.limits = limits;
    this.#profile = profile;
    this.#news = new CacheNews(limits.reportsBlocks === true);
    const { blockTokens } = limits;
    const tokenBytes = limits.kvBytesPerToken ?? profile.kvBytesPerToken ?? 131_072;
    this.#tiers = new TierStack({
      tiers: limits.tiers ?? [],
      blockBytes: tokenBytes * blockTokens,
      blockTokens,
      namer,
    });
    this.#cache = makeCache(limits, { namer, news: this.#news, tiers: this.#tiers });
    this.#scheduler = new Scheduler(limits, {
      cache: this.#cache,
      reader: new Reader(limits, profile, tokenBytes, this.#tiers),
      tiers: this.#tiers,
      counters: this.counters,
      onReading: (run, endsAt) => this.#timers.set(endsAt, run),
    });
  }

  get running(): number {
    return this.#scheduler.running;
  }

  /** Requests that wait, for blocks being read too. */
  get waiting(): number {
    return this.#byId.size - this.#scheduler.running - this.#held;
  }

  get usedBlocks(): number {
    return this.#cache.used;
  }

  get cachedBlocks(): number {
    return this.#cache.cached;
  }

  /** Blocks kept, by tier. */
  get tierBlocks(): ReturnType<TierStack["sizes"]> {
    return this.#tiers.sizes();
  }

  /** When `advance` is next due; undefined while nothing can happen by itself. */
  get nextAt(): number | undefined {
    const timer = this.#timers.nextAt;
    if (this.#step === undefined) return timer;
    const end = endOf(this.#step);
    return timer !== undefined && timer < end ? timer : end;
  }

  /**
   * What came of it at once (work may take no time) is told by the next `advance`.
   * @throws RangeError for an empty prompt or answer, a known id, too few keys, or a request that can never fit
   */
  submit(now: number, request: AnyRequest): void {
    this.#settle(now);
    const run = newRun(request, now);
    const { length } = run.sequence;
    const { blocks, blockTokens } = this.limits;
    if (!(length >= 1 && run.outputTokens >= 1)) throw new RangeError("a request needs tokens");
    if (isKeyed(request) && request.blocks.length < Math.floor(length / blockTokens)) {
      throw new RangeError(`${request.blocks.length} block keys are too few for ${length} tokens`);
    }
    if (this.#byId.has(request.id)) throw new RangeError(`request ${request.id} is known already`);
    const most = length + run.outputTokens - 1;
    if (Math.ceil(most / blockTokens) > blocks) {
      throw new RangeError(`${most} tokens do not fit into ${blocks} blocks of ${blockTokens}`);
    }
    this.#byId.set(request.id, run);
    const overhead = this.slowdown * (this.#profile.requestMs ?? 0);
    if (overhead > 0) this.#timers.set(now + overhead, run);
    else this.#enqueue(now, run);
    this.#run(now);
  }

  /** Forget a request; its blocks are free at once. Unknown ids are none. */
  abort(now: number, id: string): void {
    const run = this.#byId.get(id);
    if (run === undefined || run.state === "held") return;
    this.#settle(now);
    if (this.#byId.get(id) !== run) return;
    this.#splitStep(now);
    this.counters.finished.abort++;
    this.#drop(run);
    this.#run(now);
  }

  /** Prefill side: the decode engine has read the blocks of a request that is over. Unknown ids are none. */
  release(now: number, id: string): void {
    this.#settle(now);
    const run = this.#byId.get(id);
    if (run?.state !== "held") return;
    this.#splitStep(now);
    this.#drop(run);
    this.#run(now);
  }

  /** Is this request over, and do its blocks wait for a decode engine? */
  holds(id: string): boolean {
    return this.#byId.get(id)?.state === "held";
  }

  /** Empty the prefix cache. False while requests hold blocks. */
  reset(now: number): boolean {
    const done = this.#cache.reset();
    if (done && this.limits.publishesWhenIdle && this.#step === undefined) this.#publish(now);
    return done;
  }

  /** Fault: take `count` free blocks away (all when undefined), or give them back (0). */
  holdBlocks(now: number, count: number | undefined): void {
    this.#splitStep(now);
    if (this.#faultHolds !== undefined) this.#cache.release(this.#faultHolds);
    const held = emptySequence();
    const blocks = Math.min(count ?? this.limits.blocks, this.#cache.free);
    this.#cache.grow(held, blocks * this.limits.blockTokens);
    this.#faultHolds = held;
    this.#run(now);
  }

  /** Do all that is due by `now`. @returns what came of it since the last call, in order */
  advance(now: number): readonly ModelOutput[] {
    this.#run(now);
    const outputs = this.#outputs;
    this.#outputs = [];
    return outputs;
  }

  /** Do what was due before `now`, so that what happens now finds the engine as it is. */
  #settle(now: number): void {
    const due = this.nextAt;
    if (due !== undefined && due < now) this.#run(now, true);
  }

  #run(now: number, before = false): void {
    if (this.#step === undefined) this.#step = this.#startStep(now);
    while (true) {
      const end = this.#step === undefined ? Number.POSITIVE_INFINITY : endOf(this.#step);
      const timer = this.#timers.nextAt ?? Number.POSITIVE_INFINITY;
      const at = Math.min(end, timer);
      if (before ? at >= now : at > now || at === Number.POSITIVE_INFINITY) break;
      if (timer <= end) this.#ring(at, this.#timers.take());
      else this.#finishStep(this.#step!, end);
      if (this.#step === undefined) this.#step = this.#startStep(at);
    }
    if (!before) this.#doneUntil = now;
  }

  /** A request's time has come: it arrives, its blocks are read, or nobody wants them any more. */
  #ring(at: number, run: Run): void {
    if (run.state === "arriving") this.#enqueue(at, run);
    else if (run.state === "reading") {
      this.#splitStep(at);
      this.#scheduler.ready(run);
      if (run.request.transfer === true && run.transferMs > 0) {
        this.#outputs.push({ type: "transferred", at, id: run.request.id });
      }
    } else if (run.state === "held") {
      this.#splitStep(at);
      this.#outputs.push({ type: "expired", at, id: run.request.id });
      this.#drop(run);
    }
  }

  #enqueue(at: number, run: Run): void {
    run.state = "waiting";
    run.queuedAt = at;
    // Whoever waits already cannot be admitted before the step's end, so neither can those behind.
    const { waiting } = this.#scheduler;
    if (waiting.length === 0) this.#cutStep(at);
    waiting.push(run);
  }

  /** Somebody new could take part: of the steps under way only the one that has begun is finished. */
  #cutStep(at: number): void {
    const step = this.#step;
    if (step === undefined || step.count === 1 || this.#scheduler.full) return;
    step.count = stepsBegun(step, at, at <= this.#doneUntil);
  }

  /** The same, and the steps before that one are accounted for now. */
  #splitStep(at: number): void {
    const step = this.#step;
    if (step === undefined || step.count === 1) return;
    const over = stepsBegun(step, at, at <= this.#doneUntil) - 1;
    if (over === 0) {
      step.count = 1;
      return;
    }
    const end = endOf(step, over);
    const firstMs = step.firstMs + step.growthMs * over;
    step.count = over;
    this.#finishStep(step, end);
    for (const run of step.work) this.#scheduler.begin(run);
    this.#step = { startedAt: end, work: step.work, firstMs, growthMs: step.growthMs, count: 1 };
  }

  #startStep(at: number): Step | undefined {
    const plan = this.#scheduler.plan(at);
    if (plan === undefined) return undefined;
    const { work, stallMs, count } = plan;
    const firstMs = this.slowdown * durationOf(this.#profile, work, this.limits.speculative?.tokens ?? 0) + stallMs;
    const growthMs = this.slowdown * this.#profile.contextMsPerToken * this.#scheduler.rate * work.length;
    return { startedAt: at, work, firstMs, growthMs, count };
  }

  #finishStep(step: Step, at: number): void {
    this.#step = undefined;
    this.counters.steps += step.count;
    this.counters.busyMs += at - step.startedAt;
    const told: ModelOutput[] = [];
    for (const run of step.work) {
      if (run.state !== "running") continue;
      if (decodes(run)) this.#decode(step, at, run, told);
      else this.#prefill(at, run, told);
    }
    this.#scheduler.sweep();
    this.#publish(at);
    for (const output of told) this.#outputs.push(output);
  }

  #prefill(at: number, run: Run, told: ModelOutput[]): void {
    this.counters.computedTokens += run.target - run.computed;
    run.computed = run.target;
    this.#scheduler.store(run, run.computed);
    if (run.target < run.sequence.length) return;
    if (run.generated === 0) {
      this.counters.promptTokens += run.sequence.promptTokens;
      run.firstAt = at;
      if (isKeyed(run.request)) {
        told.push({ type: "first", at, id: run.request.id, use: run.use!, timing: timingOf(run) });
      }
    } else this.gaps.add(at - run.lastAt);
    this.#generate(at, run, 1, told);
  }

  #decode(step: Step, at: number, run: Run, told: ModelOutput[]): void {
    const gained = this.#scheduler.gain(run, step.count);
    const perStep = gained / step.count;
    this.gaps.add((endOf(step, 1) - run.lastAt) / perStep, perStep);
    if (step.count > 1) {
      const rest = step.count - 1;
      this.gaps.add((at - endOf(step, 1)) / rest / perStep, rest * perStep);
    }
    const { rate } = this.#scheduler;
    if (rate !== 1) run.credit += rate * step.count - gained;
    const computed = run.computed + gained;
    this.#cache.grow(run.sequence, computed);
    run.computed = computed;
    this.#generate(at, run, gained, told);
    if (step.count > 1 && run.state === "running") this.#scheduler.store(run, computed);
  }

  #generate(at: number, run: Run, count: number, told: ModelOutput[]): void {
    const { request, sequence } = run;
    const { id } = request;
    const use = run.use!;
    this.counters.generatedTokens += count;
    if (!isKeyed(request)) {
      for (let index = run.generated; index < run.generated + count; index++) {
        const token = request.output[index]!;
        sequence.tokens!.push(token);
        told.push({ type: "token", at, id, token, index, use });
      }
    }
    sequence.length += count;
    run.generated += count;
    run.lastAt = at;
    if (run.generated < run.outputTokens) return;
    // The last token was never fed back: it has no keys and values.
    if (this.limits.prefixCaching) this.#cache.store(sequence, run.computed);
    const reason = request.finish ?? "length";
    this.counters.finished[reason]++;
    if (request.hold === true) this.#hold(at, run);
    else this.#drop(run);
    told.push({ type: "finished", at, id, reason, use, timing: timingOf(run), tokens: run.generated });
  }

  #hold(at: number, run: Run): void {
    run.state = "held";
    this.#held++;
    this.#timers.set(at + (this.limits.holdMs ?? HOLD_MS), run);
  }

  #drop(run: Run): void {
    this.#byId.delete(run.request.id);
    if (run.state === "held") this.#held--;
    // Who ends with a step leaves with the others at its end.
    if (run.generated < run.outputTokens) this.#scheduler.remove(run);
    run.state = "gone";
    this.#cache.release(run.sequence);
  }

  #publish(at: number): void {
    const events = this.#news.takeEvents();
    if (events.length > 0) this.#outputs.push({ type: "events", at, events });
    const keys = this.#news.takeKeys();
    if (keys !== undefined) this.#outputs.push({ type: "blocks", at, ...keys });
  }
}
