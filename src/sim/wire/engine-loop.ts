import type { Clock } from "../../core/clock.ts";
import { type CacheUse, EngineModel, type ModelOutput, type ModelRequest } from "../model/engine-model.ts";
import type { CacheEvent } from "../model/prefix-cache.ts";
import { sglangNamer, vllmNamer } from "./hashes.ts";
import { Histogram } from "./histogram.ts";
import type { SimOptions } from "./sim-options.ts";

/** Told what becomes of a request. Calls may come before `submit` returns. */
export interface RequestListener {
  token(token: number, index: number, use: CacheUse): void;
  finished(reason: "stop" | "length", use: CacheUse): void;
  /** Decode side: all is read from the prefill engine. */
  transferred?(): void;
}

/** Bucket bounds of vLLM 0.32.0, in seconds. */
const TTFT_S = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
];
const ITL_S = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80];
const E2E_S = [0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680];

interface Pending {
  readonly listener: RequestListener;
  readonly since: number;
  lastAt: number;
}

/** Runs the model in real time: asks it when something is due, and hands out what came of it. */
export class EngineLoop {
  readonly model: EngineModel;
  /** Latencies in seconds. */
  readonly latency = {
    firstToken: new Histogram(TTFT_S),
    interToken: new Histogram(ITL_S),
    endToEnd: new Histogram(E2E_S),
  };
  readonly #clock: Clock;
  readonly #speed: number;
  readonly #onEvents: (events: readonly CacheEvent[]) => void;
  /** Prefill side: nobody read the blocks of this request in time. */
  onExpired: ((id: string) => void) | undefined;
  readonly #pending = new Map<string, Pending>();
  #cancel: (() => void) | undefined;
  #frozen = false;
  #serial = 0;

  constructor(options: SimOptions, clock: Clock, onEvents: (events: readonly CacheEvent[]) => void) {
    this.model = new EngineModel(
      options.limits,
      options.profile,
      options.kind === "vllm" ? vllmNamer(options.hashSeed) : sglangNamer,
    );
    this.#clock = clock;
    this.#speed = options.speed;
    this.#onEvents = onEvents;
    this.model.slowdown = 1 / options.speed;
  }

  /**
   * @returns the id by which `abort` knows it: a client's own request id may come twice
   * @throws RangeError as the model does
   */
  submit(wanted: Omit<ModelRequest, "id">, listener: RequestListener): string {
    const now = this.#clock.now();
    const request = { ...wanted, id: String(this.#serial++) };
    this.#pending.set(request.id, { listener, since: now, lastAt: now });
    try {
      this.model.submit(now, request);
    } catch (e) {
      this.#pending.delete(request.id);
      throw e;
    }
    this.#pump();
    return request.id;
  }

  /** The client left. */
  abort(id: string): void {
    if (!this.#pending.delete(id)) return;
    this.model.abort(this.#clock.now(), id);
    this.#pump();
  }

  /** Prefill side: its blocks are read. */
  release(id: string): void {
    this.model.release(this.#clock.now(), id);
    this.#pump();
  }

  reset(): boolean {
    const done = this.model.reset(this.#clock.now());
    this.#pump();
    return done;
  }

  /** Fault: every step takes `factor` times as long. */
  slow(factor: number): void {
    this.model.slowdown = factor / this.#speed;
  }

  /** Fault: take the free blocks away (true), or give them back. */
  fill(full: boolean): void {
    this.model.holdBlocks(this.#clock.now(), full ? undefined : 0);
    this.#pump();
  }

  /** Nothing is computed from now on: the engine is dead, or being ended. */
  freeze(): void {
    this.#frozen = true;
    this.#cancel?.();
  }

  #pump(): void {
    if (this.#frozen) return;
    this.#cancel?.();
    const now = this.#clock.now();
    for (const output of this.model.advance(now)) this.#deliver(output);
    const next = this.model.nextAt;
    if (next !== undefined && !this.#frozen)
      this.#cancel = this.#clock.after(Math.max(0, next - now), () => this.#pump());
  }

  #deliver(output: ModelOutput): void {
    if (output.type === "events") {
      this.#onEvents(output.events);
      return;
    }
    if (output.type === "transferred") this.#pending.get(output.id)?.listener.transferred?.();
    if (output.type === "expired") this.onExpired?.(output.id);
    if (output.type !== "token" && output.type !== "finished") return;
    const pending = this.#pending.get(output.id);
    if (pending === undefined) return;
    if (output.type === "token") {
      const past = (output.at - (output.index === 0 ? pending.since : pending.lastAt)) / 1000;
      (output.index === 0 ? this.latency.firstToken : this.latency.interToken).observe(past);
      pending.lastAt = output.at;
      pending.listener.token(output.token, output.index, output.use);
    } else {
      this.latency.endToEnd.observe((output.at - pending.since) / 1000);
      this.#pending.delete(output.id);
      pending.listener.finished(output.reason, output.use);
    }
  }
}
