import type { SimEngine } from "./sim-engine.ts";

/** A wake takes this share of what the load took; reading the weights again (level 2) takes four times as much. */
const WAKE_SHARE = 1 / 20;
const RELOAD_SHARE = 1 / 5;

/** vLLM's sleep: its process goes on answering, and holds neither weights nor KV. */
export class SimSleep {
  readonly #engine: SimEngine;
  /** What is away. */
  readonly #away = new Set<"weights" | "kv_cache">();
  /** The weights' memory is there, and not what was in it. */
  #hollow = false;
  #waiters: (() => void)[] = [];

  constructor(engine: SimEngine) {
    this.#engine = engine;
  }

  get isAsleep(): boolean {
    return this.#away.size > 0;
  }

  /** Awake after level 2 without its weights loaded again: what it would generate is rubbish. */
  get isHollow(): boolean {
    return this.#hollow && !this.isAsleep;
  }

  /** @param waits requests that run end first; else they are aborted, as vLLM does by default */
  async fallAsleep(level: number, waits: boolean): Promise<void> {
    if (!waits) this.#engine.failAll("the request was aborted");
    await this.#engine.idle(Number.POSITIVE_INFINITY);
    if (level < 1) return;
    this.#away.add("weights").add("kv_cache");
    this.#hollow ||= level === 2;
    this.#engine.loop.reset();
  }

  /** @returns whether all of it is back */
  async wake(tags: readonly string[]): Promise<boolean> {
    await this.#take(WAKE_SHARE);
    const wanted = tags.length === 0 ? ["weights", "kv_cache"] : tags;
    for (const tag of ["weights", "kv_cache"] as const) if (wanted.includes(tag)) this.#away.delete(tag);
    if (this.isAsleep) return false;
    for (const wake of this.#waiters.splice(0)) wake();
    return true;
  }

  async reload(): Promise<void> {
    await this.#take(RELOAD_SHARE);
    this.#hollow = false;
  }

  /** Requests that come meanwhile wait, as they do in vLLM. */
  awake(): Promise<void> {
    return new Promise((resolve) => this.#waiters.push(resolve));
  }

  #take(share: number): Promise<void> {
    const { clock } = this.#engine.deps;
    return new Promise((resolve) => clock.after(this.#engine.options.loadMs * share, resolve));
  }
}
