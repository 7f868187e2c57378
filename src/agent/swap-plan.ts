//  unloaded, asleep ─load▶ loading ─ready▶ loaded ─hold▶ leaving ─idle, unload▶ unloading ─gone▶ unloaded, ─asleep▶ asleep
//  leaving ─release▶ loaded; loading ─unload▶ unloading; loading, loaded, leaving ─failed▶ failed ─retryMs▶ unloaded

import type { WorkerId } from "../core/ids.ts";
import { excludes, mustLeave, type SwapEngine, type SwapRules } from "../core/swap-rules.ts";
import { chooseVictims } from "./swap-memory.ts";

export type Phase = "unloaded" | "asleep" | "loading" | "loaded" | "leaving" | "unloading" | "failed";

/** Where one engine is. Times are monotonic milliseconds. */
export interface Residency {
  readonly phase: Phase;
  readonly sinceMs: number;
  /** When it became ready last. */
  readonly loadedMs: number;
  /** When a request was last seen on it. */
  readonly usedMs: number;
  readonly busy: boolean;
  /** When somebody asked for it to be loaded, without a request: undefined once it is. */
  readonly askedMs?: number;
  /** Somebody asked for it to be unloaded. */
  readonly sentAway?: boolean;
  /** Why it leaves, for people. */
  readonly why?: string;
}

/** Requests that wait for one model: how many, and when the first of them came. */
export interface Wait {
  readonly count: number;
  readonly oldestMs: number;
}

export interface SwapState {
  readonly engines: ReadonlyMap<WorkerId, Residency>;
  /** By model; models that nobody waits for are absent. */
  readonly waiting: ReadonlyMap<string, Wait>;
}

/**
 * What happened. `waiting` replaces all that was known of who waits. `use`: an engine has requests, or had one. `idle`: an engine that
 * was held has no request left, and can get none. `ready`, `asleep`, `gone`, `failed`: what came of a load or an unload, or of itself.
 */
export type SwapEvent =
  | { readonly type: "waiting"; readonly waiting: ReadonlyMap<string, Wait> }
  | { readonly type: "use"; readonly engine: WorkerId; readonly busy: boolean }
  | { readonly type: "idle" | "ready" | "asleep" | "gone" | "failed" | "load" | "unload"; readonly engine: WorkerId }
  | { readonly type: "tick" };

/**
 * What to do, in order. `hold` takes it out of routing without touching what runs on it, `release` puts it back. `unload` comes only
 * for one that was idle while it was held, or never ready.
 */
export interface SwapAction {
  readonly type: "load" | "hold" | "release" | "unload";
  readonly engine: WorkerId;
  /** For people. */
  readonly why: string;
}

export interface SwapStep {
  readonly state: SwapState;
  readonly actions: readonly SwapAction[];
  /** When a `tick` is wanted; undefined: time alone changes nothing. */
  readonly wakeAt: number | undefined;
}

/**
 * Requests that waited for an engine go first when it is ready, however short its residency: until they have gone it is not held, but
 * no longer than so (a router that died would keep it for ever).
 */
const FIRST_BATCH_MS = 10_000;

/** Nothing is loaded and nobody waits. */
export function emptySwap(rules: SwapRules): SwapState {
  const fresh: Residency = { phase: "unloaded", sinceMs: 0, loadedMs: 0, usedMs: 0, busy: false };
  return { engines: new Map(rules.engines.map(({ id }) => [id, fresh])), waiting: new Map() };
}

/**
 * Advance the swap by one event. Pure.
 *
 * Whoever waits longest is served first: what stands in its way is held once its residency is over, unloaded when it is idle, and
 * nothing that would stand in its way again is loaded before it. What nobody needs away any more is released.
 */
export function stepSwap(rules: SwapRules, state: SwapState, event: SwapEvent, nowMs: number): SwapStep {
  const plan = new Plan(rules, state, nowMs);
  plan.take(event);
  plan.serve();
  plan.expire();
  plan.settle(event.type === "idle" ? event.engine : undefined);
  return plan.result();
}

/** Does it hold what others may need? */
export const isResident = (phase: Phase): boolean =>
  phase === "loading" || phase === "loaded" || phase === "leaving" || phase === "unloading";

interface Candidate {
  readonly engine: SwapEngine;
  readonly sinceMs: number;
}

class Plan {
  readonly #rules: SwapRules;
  readonly #now: number;
  readonly #engines: Map<WorkerId, Residency>;
  readonly #actions: SwapAction[] = [];
  /** Who must go, and for what. */
  readonly #needed = new Map<WorkerId, string>();
  #waiting: ReadonlyMap<string, Wait>;
  #wakeAt: number | undefined;

  constructor(rules: SwapRules, state: SwapState, nowMs: number) {
    this.#rules = rules;
    this.#now = nowMs;
    this.#engines = new Map(state.engines);
    this.#waiting = state.waiting;
  }

  take(event: SwapEvent): void {
    if (event.type === "waiting") this.#waiting = event.waiting;
    if ("engine" in event) this.#takeFor(event.engine, event);
    for (const [id, r] of this.#engines) {
      if (r.phase !== "failed") continue;
      if (this.#isDue(r.sinceMs + this.#rules.retryMs)) this.#move(id, "unloaded");
    }
  }

  /** Whoever waits, the oldest first: load it, or clear its way. */
  serve(): void {
    const claims: SwapEngine[] = [];
    let memoryClaimed = false;
    for (const { engine } of this.#candidates()) {
      if (claims.some((other) => excludes(other, engine, this.#rules))) continue;
      if (memoryClaimed && engine.memoryBytes > 0 && !isResident(this.#at(engine.id).phase)) continue;
      claims.push(engine);
      const { blockers, fits } = this.#blockers(engine, claims);
      for (const id of blockers) this.#clear(id, engine);
      const { phase } = this.#at(engine.id);
      if (phase === "leaving") this.#release(engine.id);
      else if (phase === "unloaded" || phase === "asleep") {
        if (blockers.length === 0 && fits) this.#load(engine);
        else memoryClaimed = true;
      } else if (phase === "unloading") memoryClaimed = true;
    }
  }

  /** Unload what was idle for its time to live. */
  expire(): void {
    for (const { id, model, ttlMs } of this.#rules.engines) {
      const r = this.#at(id);
      if (ttlMs === undefined || r.phase !== "loaded" || r.busy || this.#waiting.has(model)) continue;
      const due = Math.max(r.usedMs + ttlMs, r.loadedMs + this.#rules.minResidencyMs);
      if (!this.#isDue(due)) continue;
      this.#needed.set(id, "idle for its ttl");
      this.#hold(id);
    }
  }

  /** Take back what nobody needs away; unload what is idle. */
  settle(idle: WorkerId | undefined): void {
    for (const { id, model } of this.#rules.engines) {
      const r = this.#at(id);
      if (r.phase !== "leaving") continue;
      const isExpired = !this.#waiting.has(model) && this.#ttlIsOver(id);
      if (!this.#needed.has(id) && r.sentAway !== true && !isExpired) this.#release(id);
      else if (idle === id) this.#unload(id);
    }
  }

  result(): SwapStep {
    return { state: { engines: this.#engines, waiting: this.#waiting }, actions: this.#actions, wakeAt: this.#wakeAt };
  }

  #takeFor(id: WorkerId, event: SwapEvent & { readonly engine: WorkerId }): void {
    const r = this.#engines.get(id);
    if (r === undefined) return;
    switch (event.type) {
      case "use":
        this.#set(id, { busy: event.busy, usedMs: this.#now });
        return;
      case "idle":
        this.#set(id, { busy: false });
        return;
      case "ready":
        if (r.phase === "loading") this.#arrive(id);
        return;
      case "asleep":
      case "gone":
        this.#move(id, event.type === "asleep" ? "asleep" : "unloaded");
        return;
      case "failed":
        this.#move(id, "failed");
        return;
      case "load":
        if (r.phase === "failed") this.#move(id, "unloaded");
        if (r.phase !== "loading" && r.phase !== "loaded") this.#set(id, { askedMs: this.#now, sentAway: false });
        return;
      case "unload":
        this.#sendAway(id, r.phase);
        return;
    }
  }

  #sendAway(id: WorkerId, phase: Phase): void {
    const { askedMs: _asked, ...rest } = this.#at(id);
    this.#engines.set(id, rest);
    if (phase === "loading" || phase === "asleep") this.#unload(id);
    if (phase === "loaded" || phase === "leaving") this.#set(id, { sentAway: true });
    if (phase === "loaded") this.#hold(id);
  }

  #arrive(id: WorkerId): void {
    const { askedMs: _asked, ...rest } = this.#at(id);
    this.#engines.set(id, { ...rest, phase: "loaded", sinceMs: this.#now, loadedMs: this.#now, usedMs: this.#now });
  }

  /** Engines that somebody waits for and that are not there, the longest wait first. */
  #candidates(): Candidate[] {
    const found = new Map<WorkerId, Candidate>();
    for (const [model, { count, oldestMs }] of this.#waiting) {
      const engine = count > 0 ? this.#chosenOf(model) : undefined;
      if (engine !== undefined) found.set(engine.id, { engine, sinceMs: oldestMs });
    }
    for (const engine of this.#rules.engines) {
      const { askedMs, phase } = this.#at(engine.id);
      if (askedMs === undefined || phase === "failed" || phase === "loaded") continue;
      const known = found.get(engine.id);
      found.set(engine.id, { engine, sinceMs: Math.min(askedMs, known?.sinceMs ?? askedMs) });
    }
    // Equal times: those that are on their way first, then the file's order; never the order in which routers told them.
    const place = (id: WorkerId): number => this.#rules.engines.findIndex((each) => each.id === id);
    return [...found.values()].sort((a, b) => a.sinceMs - b.sinceMs || place(a.engine.id) - place(b.engine.id));
  }

  /** The engine that shall serve a model: the one that is nearest to it. Undefined: it is served, or cannot be. */
  #chosenOf(model: string): SwapEngine | undefined {
    const engines = this.#rules.engines.filter((engine) => engine.model === model);
    const phaseOf = (engine: SwapEngine): Phase => this.#at(engine.id).phase;
    if (engines.some((engine) => phaseOf(engine) === "loaded")) return undefined;
    const isFree = (engine: SwapEngine): boolean => this.#blockers(engine, []).blockers.length === 0;
    for (const phase of ["loading", "leaving", "asleep", "unloaded", "unloading"] as const) {
      // One that somebody sent away is not taken back; it is loaded again once it is gone.
      const those = engines.filter((engine) => phaseOf(engine) === phase);
      if (those.length > 0) return those.find(isFree) ?? those[0];
    }
    return undefined;
  }

  /** Engines that must be away before this one may be loaded. */
  #blockers(
    engine: SwapEngine,
    claims: readonly SwapEngine[],
  ): { readonly blockers: WorkerId[]; readonly fits: boolean } {
    const residents = this.#rules.engines.filter((other) => other !== engine && isResident(this.#at(other.id).phase));
    const blocking = residents.filter((other) => mustLeave(engine, other));
    const staying = residents.filter((other) => !blocking.includes(other));
    const victims = chooseVictims(engine, staying, claims, this.#rules, (id) => this.#at(id));
    return { blockers: [...blocking, ...victims.engines].map(({ id }) => id), fits: victims.fits };
  }

  /** Get an engine out of another's way, as far as that may be done now. */
  #clear(id: WorkerId, by: SwapEngine): void {
    const r = this.#at(id);
    const why = `makes room for ${by.model}`;
    this.#needed.set(id, why);
    const model = this.#modelOf(id);
    if (r.phase === "loading" && !this.#waiting.has(model) && r.askedMs === undefined) this.#unload(id);
    if (r.phase === "loaded" && this.#mayLeave(r, model)) this.#hold(id);
  }

  /** Its residency is over, and those that waited for it have gone to it. */
  #mayLeave(r: Residency, model: string): boolean {
    const stays = r.loadedMs + this.#rules.minResidencyMs;
    if (!this.#isDue(stays)) return false;
    const wait = this.#waiting.get(model);
    if (wait === undefined || wait.oldestMs > r.loadedMs) return true;
    return this.#isDue(stays + FIRST_BATCH_MS);
  }

  #ttlIsOver(id: WorkerId): boolean {
    const { ttlMs } = this.#rules.engines.find((engine) => engine.id === id)!;
    return ttlMs !== undefined && this.#at(id).usedMs + ttlMs <= this.#now;
  }

  #load(engine: SwapEngine): void {
    const asleep = this.#at(engine.id).phase === "asleep";
    const waits = this.#waiting.get(engine.model)?.count ?? 0;
    const why = waits > 0 ? `${waits} ${waits === 1 ? "request waits" : "requests wait"}` : "asked for";
    this.#act("load", engine.id, asleep ? `wakes: ${why}` : why);
    this.#move(engine.id, "loading");
  }

  #hold(id: WorkerId): void {
    const why = this.#needed.get(id) ?? "asked to unload";
    this.#act("hold", id, why);
    this.#move(id, "leaving");
    this.#set(id, { why });
  }

  #release(id: WorkerId): void {
    // Whoever was sent away leaves, whoever waits; it is loaded again after.
    if (this.#at(id).sentAway === true) return;
    const { askedMs: _asked, ...rest } = this.#at(id);
    this.#engines.set(id, rest);
    this.#needed.delete(id);
    this.#act("release", id, "needed again");
    this.#move(id, "loaded");
  }

  #unload(id: WorkerId): void {
    this.#act("unload", id, this.#at(id).why ?? this.#needed.get(id) ?? "asked to unload");
    this.#move(id, "unloading");
  }

  #act(type: SwapAction["type"], engine: WorkerId, why: string): void {
    this.#actions.push({ type, engine, why });
  }

  #move(id: WorkerId, phase: Phase): void {
    const { sentAway, why, ...rest } = this.#at(id);
    const goes = phase === "leaving" || phase === "unloading";
    const kept = { ...(sentAway === undefined ? {} : { sentAway }), ...(why === undefined ? {} : { why }) };
    this.#engines.set(id, { ...rest, phase, sinceMs: this.#now, ...(goes ? kept : {}) });
  }

  #set(id: WorkerId, fields: Partial<Residency>): void {
    this.#engines.set(id, { ...this.#at(id), ...fields });
  }

  #at(id: WorkerId): Residency {
    return this.#engines.get(id)!;
  }

  #modelOf(id: WorkerId): string {
    return this.#rules.engines.find((engine) => engine.id === id)!.model;
  }

  /** Has this moment come? Else it is when the next tick is wanted, unless another comes before. */
  #isDue(atMs: number): boolean {
    if (atMs <= this.#now) return true;
    this.#wakeAt = Math.min(this.#wakeAt ?? atMs, atMs);
    return false;
  }
}
