import { createPolicy, DEFAULT_POLICY_OPTIONS } from "../../routing/policies.ts";
import { EngineModel } from "../model/engine-model.ts";
import { fastNamer } from "../model/namer.ts";
import type { ModelOutput, Timing } from "../model/output.ts";
import { AdmissionLane } from "./admission-lane.ts";
import { seededDice } from "./dice.ts";
import { addTiming, type Job, newJob } from "./job.ts";
import { EventKnowledge, HistoryKnowledge, type Knowledge, NoKnowledge } from "./known-blocks.ts";
import { Measures } from "./measures.ts";
import { RemoteLoads } from "./remote-loads.ts";
import type { EngineFailure, ReplayOptions } from "./replay-options.ts";
import { TierMirror } from "./tier-mirror.ts";
import type { TraceRequest } from "./trace.ts";
import { type VirtualChoice, VirtualRouter } from "./virtual-router.ts";

/** Policies that ask who holds a prefix. */
const ASKS: ReadonlySet<string> = new Set(["ttft", "weighted"]);

type Told = Extract<ModelOutput, { readonly type: "first" | "finished" }>;

interface Engine {
  model: EngineModel;
  up: boolean;
  /** Something was given to it since it was last asked: it may have an answer already, where work takes no time. */
  fresh: boolean;
  /** Work of models that failed. */
  busyMs: number;
  tokens: number;
  preemptions: number;
  inFlight: number;
}

interface Timer {
  readonly at: number;
  run(): void;
}

/**
 * A trace against model engines and the router's own decisions, in virtual time. Give requests with `arrive()` in the order of
 * their times, then `drain()`. Pure: the same calls give the same numbers.
 */
export class Replay {
  readonly measures: Measures;
  readonly engines: readonly Engine[];
  readonly #options: ReplayOptions;
  readonly #routers: readonly VirtualRouter[];
  readonly #lanes: readonly AdmissionLane[];
  readonly #events: readonly EventKnowledge[];
  readonly #jobs = new Map<string, Job>();
  /** What lies in tiers behind each device; undefined: there are none, or routers do not ask. */
  readonly #mirrors: TierMirror[] | undefined;
  readonly #roll: () => number;
  readonly #timers: Timer[];
  /** Engines that take prompts, and those that take answers of prompts computed elsewhere. */
  #prefills: readonly number[] = [];
  #decodes: readonly number[] = [];
  #now = 0;
  #count = 0;

  constructor(options: ReplayOptions) {
    this.#options = options;
    const count = options.engines;
    this.measures = new Measures(count);
    this.engines = Array.from({ length: count }, () => ({
      model: this.#newModel(),
      up: true,
      fresh: false,
      busyMs: 0,
      tokens: 0,
      preemptions: 0,
      inFlight: 0,
    }));
    const remote = Array.from({ length: options.routers }, () =>
      options.shareBookingsMs === undefined ? undefined : new RemoteLoads(count, options.shareBookingsMs),
    );
    for (const view of remote) view?.tell(remote.filter((other) => other !== undefined));
    const knowledge = remote.map(() => this.#newKnowledge());
    const asks = ASKS.has(options.policy) && options.knowledge === "events" && options.limits.tiers !== undefined;
    this.#mirrors = asks ? this.engines.map(() => this.#newMirror()) : undefined;
    this.#events = knowledge.filter((k) => k instanceof EventKnowledge);
    this.#routers = remote.map(
      (view, i) =>
        new VirtualRouter({
          engines: count,
          policy: createPolicy(options.policy, {
            weights: options.weights ?? DEFAULT_POLICY_OPTIONS.weights,
            seed: options.seed + i,
          }),
          knowledge: knowledge[i]!,
          blockTokens: options.limits.blockTokens,
          live: options.live,
          perEngine: options.admission.maxConcurrentPerEngine,
          remote: view,
          onDevice: this.#mirrors && ((engine, blocks, count) => this.#mirrors![engine]!.onDevice(blocks, count)),
        }),
    );
    this.#lanes = this.#routers.map(() => new AdmissionLane(options.admission));
    this.#roll = seededDice(options.seed);
    this.#timers = options.failures.flatMap((failure) => this.#failureTimers(failure)).sort((a, b) => a.at - b.at);
    this.#regroup();
  }

  /** Virtual time reached, in milliseconds. */
  get now(): number {
    return this.#now;
  }

  /** Requests under way. */
  get inFlight(): number {
    return this.#jobs.size;
  }

  arrive(request: TraceRequest): void {
    this.#runUntil(request.at);
    const at = Math.max(request.at, this.#now);
    const number = this.#count++;
    const index = number % this.#routers.length;
    this.measures.arrived(
      at,
      request.blocks,
      this.engines.map(({ inFlight }) => inFlight),
    );
    const job = newJob(String(number), request, this.#routers[index]!, index, at);
    const admitted = this.#lanes[index]!.enter(job, this.#prefills.length);
    if (admitted === "full") this.measures.rejected++;
    else if (admitted === "in") this.#send(at, job);
  }

  /** Run until every request is over. */
  drain(): void {
    for (;;) {
      const next = this.#nextAt();
      if (next === Number.POSITIVE_INFINITY) return;
      this.#runUntil(next);
    }
  }

  #runUntil(until: number): void {
    for (;;) {
      // Where one engine's output moves another, they go on in step; else each may run ahead to the next arrival.
      const fine = this.#options.disaggregated !== undefined || this.#lanes.some((lane) => lane.waiting > 0);
      const at = Math.min(until, fine ? this.#nextAt() : (this.#timers[0]?.at ?? until));
      this.#advance(at);
      this.#now = Math.max(this.#now, at);
      for (const lane of this.#lanes) for (const job of lane.overdue(this.#now)) this.#reject(job);
      while (this.#timers[0] !== undefined && this.#timers[0].at <= this.#now) this.#timers.shift()!.run();
      if (at >= until) return;
    }
  }

  #nextAt(): number {
    let next = this.#timers[0]?.at ?? Number.POSITIVE_INFINITY;
    for (const { model, fresh } of this.engines) {
      next = Math.min(next, fresh ? this.#now : (model.nextAt ?? Number.POSITIVE_INFINITY));
    }
    for (const lane of this.#lanes) next = Math.min(next, lane.nextAt);
    return next;
  }

  /** Let all engines work until a time, and take what they say in the order in which they say it. */
  #advance(at: number): void {
    const told: { readonly engine: number; readonly output: Told | ModelOutput }[] = [];
    let sources = 0;
    for (let engine = 0; engine < this.engines.length; engine++) {
      const one = this.engines[engine]!;
      if (!one.fresh && (one.model.nextAt ?? Number.POSITIVE_INFINITY) > at) continue;
      one.fresh = false;
      const outputs = one.model.advance(at);
      if (outputs.length > 0) sources++;
      for (const output of outputs) told.push({ engine, output });
    }
    if (sources > 1) told.sort((a, b) => a.output.at - b.output.at);
    for (const { engine, output } of told) this.#take(engine, output);
  }

  #take(engine: number, output: ModelOutput): void {
    if (output.type === "blocks") this.#hear(engine, output);
    else if (output.type === "first") this.#first(output.at, this.#jobs.get(output.id), output.timing);
    else if (output.type === "finished") this.#finished(engine, output);
    else if (output.type === "transferred") this.#release(output.at, this.#jobs.get(output.id));
  }

  #hear(engine: number, { at, stored, removed }: Extract<ModelOutput, { type: "blocks" }>): void {
    const { lostEvents, knowledgeDelayMs } = this.#options;
    const held = this.#mirrors === undefined ? { stored, removed } : this.#mirrors[engine]!.take({ stored, removed });
    for (const knowledge of this.#events) {
      if (lostEvents > 0 && this.#roll() < lostEvents) continue;
      knowledge.hear({ at: at + knowledgeDelayMs, engine, ...held });
    }
  }

  #first(at: number, job: Job | undefined, timing: Timing): void {
    if (job?.choice === undefined) return;
    job.legFirstAt = at;
    addTiming(job, timing);
    job.router.firstToken(at, job.choice);
  }

  #finished(engine: number, { at, id, use }: Extract<ModelOutput, { type: "finished" }>): void {
    const job = this.#jobs.get(id);
    if (job?.choice === undefined) return;
    const { request, choice } = job;
    const firstAt = job.legFirstAt ?? at;
    this.engines[engine]!.inFlight--;
    this.#mirrors?.[engine]?.used(request.blocks, use.foundBlocks ?? 0);
    // A decode engine's figure is its prefill's.
    const cachedTokens = job.leg === "decode" ? choice.cachedTokens : use.cachedTokens;
    job.router.finished(at, choice, request, { ttftMs: firstAt - job.sentAt, cachedTokens });
    const found = {
      engine,
      foundBlocks: use.foundBlocks ?? 0,
      cachedTokens: use.cachedTokens,
      predictedBlocks: choice.cachedBlocks,
    };
    if (job.leg === "prefill") {
      job.prefill = found;
      this.#decode(at, job);
      return;
    }
    const held = job.prefill ?? found;
    job.parts.decode = at - firstAt;
    this.measures.answered({
      arrivedAt: job.arrivedAt,
      firstAt,
      finishedAt: at,
      promptTokens: request.promptTokens,
      outputTokens: request.outputTokens,
      blocks: request.blocks.length,
      byTier: use.byTier,
      parts: job.parts,
      ...held,
    });
    this.#over(at, job);
  }

  /** Choose engines for a request that was let in. */
  #send(at: number, job: Job): void {
    job.parts.queue = at - job.arrivedAt;
    const split = this.#options.disaggregated;
    const among = this.#prefills.filter((engine) => !job.tried.has(engine));
    const choice = this.#choose(at, job, among);
    if (choice === undefined) return;
    const short = split !== undefined && choice.uncachedTokens < split.colocateBelowTokens && this.#decodes.length > 0;
    if (!short) {
      this.#submit(at, job, choice, split === undefined ? "whole" : "prefill");
      return;
    }
    // Too short to be worth two engines: the decode side computes it.
    job.router.gaveUp(at, choice);
    const other = this.#choose(at, job, this.#decodes);
    if (other !== undefined) this.#submit(at, job, other, "whole");
  }

  #decode(at: number, job: Job): void {
    job.legFirstAt = undefined;
    const choice = this.#choose(at, job, this.#decodes);
    if (choice !== undefined) this.#submit(at, job, choice, "decode");
  }

  #choose(at: number, job: Job, among: readonly number[]): VirtualChoice | undefined {
    const choice = job.router.choose(at, job.request, among);
    const slo = this.#options.admission.ttftSloMs;
    if (choice !== undefined && (slo === undefined || choice.ttftMs <= slo)) return choice;
    if (choice !== undefined) job.router.gaveUp(at, choice);
    job.choice = undefined;
    this.#reject(job);
    this.#over(at, job);
    return undefined;
  }

  #submit(at: number, job: Job, choice: VirtualChoice, leg: Job["leg"]): void {
    const { id, request } = job;
    Object.assign(job, { choice, leg, sentAt: at });
    const { blocks, promptTokens } = request;
    const outputTokens = leg === "prefill" ? 1 : request.outputTokens;
    const engine = this.engines[choice.engine]!;
    try {
      engine.model.submit(at, {
        id,
        blocks,
        promptTokens,
        outputTokens,
        ...(leg === "prefill" ? { hold: true } : leg === "decode" ? { transfer: true } : {}),
      });
    } catch (e) {
      // Longer than the engine's whole cache: the engine's own word to the client.
      if (!(e instanceof RangeError)) throw e;
      job.router.gaveUp(at, choice);
      this.measures.tooLong++;
      this.#reject(job);
      this.#over(at, job);
      return;
    }
    engine.inFlight++;
    engine.fresh = true;
    this.#jobs.set(id, job);
    job.router.sent(choice, request);
  }

  /** The decode engine has read the prompt: its prefill engine may let go. */
  #release(at: number, job: Job | undefined): void {
    if (job?.prefill === undefined) return;
    const engine = this.engines[job.prefill.engine]!;
    engine.model.release(at, job.id);
    engine.fresh = true;
  }

  #reject(_job: Job): void {
    this.measures.rejected++;
  }

  #over(at: number, job: Job): void {
    this.#jobs.delete(job.id);
    const lane = this.#lanes[job.lane]!;
    lane.leave();
    for (let next = lane.next(this.#prefills.length); next !== undefined; next = lane.next(this.#prefills.length))
      this.#send(at, next);
  }

  #failureTimers({ engine, at, forMs }: EngineFailure): Timer[] {
    const back = (): void => {
      this.engines[engine]!.up = true;
      this.#regroup();
    };
    return [
      { at, run: () => this.#fail(at, engine) },
      { at: at + forMs, run: back },
    ];
  }

  /** An engine's process dies: what streams there ends, what waits there goes elsewhere. */
  #fail(at: number, index: number): void {
    const engine = this.engines[index]!;
    if (!engine.up) return;
    const { counters } = engine.model;
    engine.busyMs += counters.busyMs;
    engine.tokens += counters.computedTokens + counters.generatedTokens;
    engine.preemptions += counters.preemptions;
    Object.assign(engine, { model: this.#newModel(), up: false, inFlight: 0 });
    this.#regroup();
    if (this.#mirrors !== undefined) this.#mirrors[index] = this.#newMirror();
    for (const router of this.#routers) router.lost(index);
    for (const job of [...this.#jobs.values()]) {
      if (job.choice?.engine !== index) continue;
      job.router.gaveUp(at, job.choice);
      job.tried.add(index);
      if (job.legFirstAt !== undefined || job.leg === "decode") {
        this.measures.failed++;
        this.#over(at, job);
        continue;
      }
      this.measures.retried++;
      this.#jobs.delete(job.id);
      this.#send(at, job);
    }
  }

  #regroup(): void {
    const up = this.engines.flatMap((engine, i) => (engine.up ? [i] : []));
    const split = this.#options.disaggregated;
    this.#prefills = split === undefined ? up : up.filter((i) => i < split.prefill);
    this.#decodes = split === undefined ? [] : up.filter((i) => i >= split.prefill);
  }

  #newModel(): EngineModel {
    const { limits, profile, policy, knowledge } = this.#options;
    return new EngineModel(
      { ...limits, reportsBlocks: ASKS.has(policy) && knowledge === "events" },
      profile,
      fastNamer,
    );
  }

  #newMirror(): TierMirror {
    return new TierMirror(this.#options.limits.tiers ?? []);
  }

  #newKnowledge(): Knowledge {
    const { policy, engines, knowledge, historyEntries } = this.#options;
    if (!ASKS.has(policy)) return new NoKnowledge(engines);
    return knowledge === "events" ? new EventKnowledge(engines) : new HistoryKnowledge(engines, historyEntries);
  }
}
