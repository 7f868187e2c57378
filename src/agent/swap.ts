import type { EngineSettings, SwapSettings } from "../config/settings.ts";
import type { Clock } from "../core/clock.ts";
import { toCgnError } from "../core/errors.ts";
import type { WorkerId } from "../core/ids.ts";
import type { Log } from "../core/log.ts";
import type { Demand, ModelLoader } from "../core/model-loader.ts";
import type { SwapEngine, SwapRules } from "../core/swap-rules.ts";
import type { WorkerInfo } from "../core/worker.ts";
import type { EngineKeeper } from "./engine-keeper.ts";
import type { EngineStatus } from "./engine-status.ts";
import { DemandBook } from "./swap-demand.ts";
import { emptySwap, type SwapAction, type SwapEvent, type SwapState, stepSwap } from "./swap-plan.ts";
import { type Sleeper, waitFor } from "./swap-sleep.ts";
import { swapWorker } from "./swap-worker.ts";

/** One engine that is loaded on demand. */
export interface SwapMember {
  readonly keeper: EngineKeeper;
  readonly settings: EngineSettings;
  /** Where it can sleep instead of ending. */
  readonly sleeper?: Sleeper;
}

export interface SwapOptions {
  readonly members: readonly SwapMember[];
  readonly settings: SwapSettings;
  readonly clock: Clock;
  readonly log: Log;
  /** The router runs in this process, so what it tells is all there is to know of requests. */
  readonly isLocal: boolean;
  /** Tell routers of an engine anew. */
  readonly publish: (status: EngineStatus) => void;
  readonly onLoad?: (engine: WorkerId, how: "start" | "wake") => void;
}

/** A load that failed is not tried again for so long: a model that does not fit fails each time, and takes the place of others. */
const RETRY_MS = 30_000;
const IDLE_LOOK_MS = 10;
const FORGET_EVERY_MS = 1_000;

interface Member extends SwapMember {
  readonly id: WorkerId;
  /** What routers were told: more than the process's own after a sleep. */
  epoch: number;
  processEpoch: number;
  /** Ends the wait for its last request. */
  hold: AbortController | undefined;
  /** What routers are told of one that is not loaded. */
  note: string;
}

/** Loads and unloads the engines that take turns: carries out what `swap-plan.ts` decides. */
export class Swap implements ModelLoader {
  readonly #o: SwapOptions;
  readonly #members: ReadonlyMap<WorkerId, Member>;
  readonly #models: ReadonlySet<string>;
  readonly #rules: SwapRules;
  readonly #book: DemandBook;
  readonly #events: SwapEvent[] = [];
  #state: SwapState;
  #isStepping = false;
  #isClosed = false;
  #cancelTick: () => void = () => {};
  #cancelForget: (() => void) | undefined;

  constructor(options: SwapOptions) {
    this.#o = options;
    this.#members = new Map(
      options.members.map((member) => {
        const { id } = member.keeper;
        return [id, { ...member, id, epoch: 0, processEpoch: 0, hold: undefined, note: "" }] as const;
      }),
    );
    this.#models = new Set(options.members.map(({ settings }) => settings.model.name));
    this.#rules = {
      engines: options.members.map(({ keeper, settings }) => swapEngine(keeper.id, settings)),
      retryMs: RETRY_MS,
      ...options.settings,
    };
    this.#book = new DemandBook(options.isLocal);
    this.#state = emptySwap(this.#rules);
  }

  /** Load what is to be there at the start. */
  start(): void {
    const preloads = this.#o.members.filter(({ settings }) => settings.onDemand?.preload !== undefined);
    preloads.sort((a, b) => a.settings.onDemand!.preload! - b.settings.onDemand!.preload!);
    for (const { keeper } of preloads) this.#post({ type: "load", engine: keeper.id });
  }

  owns(id: WorkerId): boolean {
    return this.#members.has(id);
  }

  demand(router: string, demand: Demand): void {
    if (this.#isClosed) return;
    const now = this.#o.clock.now();
    for (const engine of this.#book.take(router, demand, now)) {
      if (this.owns(engine)) this.#post({ type: "use", engine, busy: true });
    }
    this.#tellUse();
    this.#post({ type: "waiting", waiting: this.#book.waiting(this.#models) });
    this.#forgetLater();
  }

  load(name: string): Promise<readonly WorkerId[]> {
    return this.#ask("load", name);
  }

  unload(name: string): Promise<readonly WorkerId[]> {
    return this.#ask("unload", name);
  }

  /** What routers are to be told of one of its engines. */
  announce(status: EngineStatus): WorkerInfo {
    const member = this.#members.get(status.worker.id)!;
    const { epoch } = status.worker;
    if (epoch !== member.processEpoch) {
      member.processEpoch = epoch;
      member.epoch = Math.max(member.epoch + 1, epoch);
    }
    return swapWorker(status.worker, this.#state.engines.get(member.id)!, member.epoch, member.note);
  }

  /** Its process changed. */
  noticed(status: EngineStatus): void {
    const member = this.#members.get(status.worker.id);
    if (member === undefined || this.#isClosed) return;
    const { id } = member;
    const { phase } = this.#state.engines.get(id)!;
    const { state, reason } = status.worker;
    if (status.failed) {
      member.note = `the last load failed: ${reason}`;
      if (phase !== "failed") this.#post({ type: "failed", engine: id });
    } else if (phase === "loading" && state === "ready") {
      member.note = "";
      this.#post({ type: "ready", engine: id });
    } else if (phase === "asleep" && state !== "ready" && state !== "draining") {
      // It would be started again by itself, beside the one that has its place now.
      this.#o.log.warn("engine ended in its sleep", { worker: id, reason });
      this.#post({ type: "unload", engine: id });
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelTick();
    this.#cancelForget?.();
    for (const { hold } of this.#members.values()) hold?.abort();
  }

  async #ask(type: "load" | "unload", name: string): Promise<readonly WorkerId[]> {
    const meant = [...this.#members.values()].filter(({ id, settings }) => id === name || settings.model.name === name);
    for (const { id } of meant) this.#post({ type, engine: id });
    return meant.map(({ id }) => id);
  }

  #tellUse(): void {
    for (const [id, { busy }] of this.#state.engines) {
      if (busy && !this.#book.isBusy(id)) this.#post({ type: "use", engine: id, busy: false });
    }
  }

  #forgetLater(): void {
    if (this.#o.isLocal || this.#cancelForget !== undefined || this.#book.size === 0) return;
    this.#cancelForget = this.#o.clock.after(FORGET_EVERY_MS, () => {
      this.#cancelForget = undefined;
      if (this.#book.forget(this.#o.clock.now())) {
        this.#tellUse();
        this.#post({ type: "waiting", waiting: this.#book.waiting(this.#models) });
      }
      this.#forgetLater();
    });
  }

  /** One event at a time: what is carried out may bring more. */
  #post(event: SwapEvent): void {
    this.#events.push(event);
    if (this.#isStepping) return;
    this.#isStepping = true;
    for (let next = this.#events.shift(); next !== undefined; next = this.#events.shift()) {
      if (!this.#isClosed) this.#step(next);
    }
    this.#isStepping = false;
  }

  #step(event: SwapEvent): void {
    const { clock } = this.#o;
    const before = this.#state;
    const { state, actions, wakeAt } = stepSwap(this.#rules, before, event, clock.now());
    this.#state = state;
    for (const action of actions) this.#carryOut(action, before);
    for (const [id, { phase }] of state.engines) {
      if (phase !== before.engines.get(id)!.phase) this.#o.publish(this.#members.get(id)!.keeper.status());
    }
    this.#cancelTick();
    this.#cancelTick = () => {};
    if (wakeAt === undefined) return;
    this.#cancelTick = clock.after(Math.max(1, Math.ceil(wakeAt - clock.now())), () => this.#post({ type: "tick" }));
  }

  #carryOut({ type, engine, why }: SwapAction, before: SwapState): void {
    const member = this.#members.get(engine)!;
    const { phase } = before.engines.get(engine)!;
    if (type === "load" || type === "unload") this.#o.log.info(`engine ${type}s`, { worker: engine, why });
    switch (type) {
      case "load":
        member.note = "";
        if (phase === "asleep") void this.#wake(member);
        else this.#start(member);
        return;
      case "hold":
        void this.#hold(member);
        return;
      case "release":
        member.hold?.abort();
        member.keeper.cordon(false);
        return;
      case "unload":
        member.hold?.abort();
        void this.#unload(member, phase, why);
        return;
    }
  }

  #start(member: Member): void {
    this.#o.onLoad?.(member.id, "start");
    member.keeper.start();
    member.keeper.cordon(false);
  }

  /** Out of routing, and `idle` once nothing is on it. */
  async #hold(member: Member): Promise<void> {
    const end = new AbortController();
    member.hold = end;
    member.keeper.cordon(true);
    const free = await waitFor(() => this.#book.isFree(member.id), IDLE_LOOK_MS, this.#o.clock, end.signal);
    // Who speaks to it without a router of ours is seen by its own figures only.
    if (free && !this.#o.isLocal) await member.keeper.idle(end.signal);
    if (!end.signal.aborted) this.#post({ type: "idle", engine: member.id });
  }

  async #unload(member: Member, phase: string, why: string): Promise<void> {
    const { keeper, sleeper, id } = member;
    const sentAway = this.#state.engines.get(id)?.sentAway === true;
    if (sleeper !== undefined && phase === "leaving" && !sentAway && keeper.status().worker.state !== "down") {
      try {
        await sleeper.sleep();
        // Its KV is gone.
        member.epoch++;
        member.note = `${why}; wakes with a request`;
        this.#post({ type: "asleep", engine: id });
        return;
      } catch (error) {
        this.#o.log.warn("engine does not fall asleep and is ended", { worker: id, err: toCgnError(error) });
      }
    }
    member.note = `${why}; loads with a request`;
    await keeper.stop({ drainMs: 0, why });
    // It failed on its way out, or in its last moments: `failed` was told already.
    if (keeper.status().stopped) this.#post({ type: "gone", engine: id });
    else this.#post({ type: "failed", engine: id });
  }

  async #wake(member: Member): Promise<void> {
    const { keeper, sleeper, id } = member;
    const isWanted = (): boolean => this.#state.engines.get(id)?.phase === "loading";
    try {
      await sleeper?.wake();
    } catch (error) {
      this.#o.log.warn("engine does not wake and is started anew", { worker: id, err: toCgnError(error) });
      if (!isWanted()) return;
      await keeper.stop({ drainMs: 0, why: "did not wake" });
      if (isWanted()) this.#start(member);
      return;
    }
    if (!isWanted()) return;
    this.#o.onLoad?.(id, "wake");
    // In routing again once it counts as loaded: `noticed()` is told by this.
    keeper.cordon(false);
  }
}

function swapEngine(id: WorkerId, { model, onDemand, ttlMs }: EngineSettings): SwapEngine {
  const { gpus = [], memoryBytes = 0, group } = onDemand ?? {};
  return {
    id,
    model: model.name,
    gpus,
    memoryBytes,
    ...(group === undefined ? {} : { group }),
    ...(ttlMs === undefined ? {} : { ttlMs }),
  };
}
