import type { WorkerId } from "../../core/ids.ts";
import { mustLeave, type SwapEngine, type SwapRules } from "../../core/swap-rules.ts";
import {
  emptySwap,
  isResident,
  type SwapAction,
  type SwapEvent,
  type SwapState,
  stepSwap,
  type Wait,
} from "../swap-plan.ts";

/** A request of the world. `servedMs` or `refusedMs` says what became of it. */
export interface WorldRequest {
  readonly n: number;
  readonly model: string;
  readonly arrivedMs: number;
  readonly workMs: number;
  servedMs?: number;
  refusedMs?: number;
  doneMs?: number;
}

export interface WorldOptions {
  readonly rules: SwapRules;
  readonly requests: readonly { readonly atMs: number; readonly model: string; readonly workMs: number }[];
  readonly loadMs: (engine: WorkerId) => number;
  /** Does this load (counted from 0) fail? */
  readonly fails: (engine: WorkerId, nth: number) => boolean;
  readonly deadlineMs: number;
  /** Sleeps instead of ending. */
  readonly sleeps: (engine: WorkerId) => boolean;
}

interface Process {
  /** What the world really has; the planner only believes. */
  at: "none" | "loading" | "ready" | "stopping" | "asleep";
  held: boolean;
  inFlight: number;
  loads: number;
  readyMs: number;
}

interface Due {
  readonly atMs: number;
  readonly n: number;
  readonly run: () => void;
}

/**
 * Engines, a router and clients in virtual time, driven by the planner. Each rule that must hold at every moment is checked at every
 * moment: a broken one throws.
 */
export class SwapWorld {
  readonly requests: WorldRequest[] = [];
  readonly loads: { readonly engine: WorkerId; readonly atMs: number }[] = [];
  readonly #o: WorldOptions;
  readonly #processes = new Map<WorkerId, Process>();
  readonly #due: Due[] = [];
  #state: SwapState;
  #queue: WorldRequest[] = [];
  #wake: number | undefined;
  #told = "";
  #serial = 0;
  now = 0;

  constructor(options: WorldOptions) {
    this.#o = options;
    this.#state = emptySwap(options.rules);
    for (const { id } of options.rules.engines) {
      this.#processes.set(id, { at: "none", held: false, inFlight: 0, loads: 0, readyMs: 0 });
    }
    for (const { atMs, model, workMs } of options.requests) this.#at(atMs, () => this.#arrive(model, workMs));
  }

  /** Run until nothing is due, or for `steps` steps at most. @returns whether it came to rest */
  run(steps: number): boolean {
    for (let n = 0; n < steps; n++) {
      const next = this.#due.reduce<Due | undefined>(
        (least, each) => (comesBefore(each, least) ? each : least),
        undefined,
      );
      if (this.#wake !== undefined && (next === undefined || this.#wake <= next.atMs)) {
        this.now = Math.max(this.now, this.#wake);
        this.#step({ type: "tick" });
        continue;
      }
      if (next === undefined) return true;
      this.#due.splice(this.#due.indexOf(next), 1);
      this.now = next.atMs;
      next.run();
    }
    return false;
  }

  get phases(): readonly string[] {
    return [...this.#state.engines.values()].map(({ phase }) => phase);
  }

  #at(atMs: number, run: () => void): void {
    this.#due.push({ atMs, n: this.#serial++, run });
  }

  #arrive(model: string, workMs: number): void {
    const request: WorldRequest = { n: this.requests.length, model, arrivedMs: this.now, workMs };
    this.requests.push(request);
    this.#queue.push(request);
    this.#at(this.now + this.#o.deadlineMs, () => {
      const at = this.#queue.indexOf(request);
      if (at < 0) return;
      this.#queue.splice(at, 1);
      request.refusedMs = this.now;
      this.#tell();
    });
    this.#forward();
    this.#tell();
  }

  /** The router: the first come goes first, to any engine that takes it. */
  #forward(): void {
    this.#queue = this.#queue.filter((request) => {
      const engine = this.#o.rules.engines.find(
        ({ id, model }) => model === request.model && this.#of(id).at === "ready" && !this.#of(id).held,
      );
      if (engine === undefined) return true;
      this.#serve(request, engine);
      return false;
    });
  }

  #serve(request: WorldRequest, { id }: SwapEngine): void {
    const process = this.#of(id);
    process.inFlight++;
    request.servedMs = this.now;
    this.#step({ type: "use", engine: id, busy: true });
    this.#at(this.now + request.workMs, () => {
      if (process.at !== "ready") throw new Error(`request ${request.n} was cut: ${id} is ${process.at}`);
      process.inFlight--;
      request.doneMs = this.now;
      if (process.inFlight > 0) return;
      this.#step({ type: "use", engine: id, busy: false });
      this.#idleSoon(id);
    });
  }

  #idleSoon(id: WorkerId): void {
    this.#at(this.now, () => {
      const { held, inFlight, at } = this.#of(id);
      if (held && inFlight === 0 && at === "ready") this.#step({ type: "idle", engine: id });
    });
  }

  #tell(): void {
    const waiting = new Map<string, Wait>();
    for (const { model, arrivedMs } of this.#queue) {
      const { count = 0, oldestMs = arrivedMs } = waiting.get(model) ?? {};
      waiting.set(model, { count: count + 1, oldestMs: Math.min(oldestMs, arrivedMs) });
    }
    const text = JSON.stringify([...waiting]);
    if (text === this.#told) return;
    this.#told = text;
    this.#step({ type: "waiting", waiting });
  }

  #step(event: SwapEvent): void {
    const { state, actions, wakeAt } = stepSwap(this.#o.rules, this.#state, event, this.now);
    this.#state = state;
    this.#wake = wakeAt;
    for (const action of actions) this.#carryOut(action);
    this.#check();
  }

  #carryOut({ type, engine: id }: SwapAction): void {
    const process = this.#of(id);
    switch (type) {
      case "load":
        this.#load(id, process);
        return;
      case "hold":
        if (process.at !== "ready" || process.held) throw new Error(`${id} was held while it is ${process.at}`);
        process.held = true;
        this.#idleSoon(id);
        return;
      case "release":
        process.held = false;
        this.#at(this.now, () => {
          this.#forward();
          this.#tell();
        });
        return;
      case "unload":
        this.#unload(id, process);
        return;
    }
  }

  #load(id: WorkerId, process: Process): void {
    if (process.at !== "none" && process.at !== "asleep") throw new Error(`${id} was loaded while it is ${process.at}`);
    const nth = process.loads++;
    process.at = "loading";
    process.held = false;
    this.loads.push({ engine: id, atMs: this.now });
    this.#at(this.now + this.#o.loadMs(id), () => {
      if (process.at !== "loading" || process.loads !== nth + 1) return;
      if (this.#o.fails(id, nth)) {
        process.at = "none";
        this.#step({ type: "failed", engine: id });
        return;
      }
      process.at = "ready";
      process.readyMs = this.now;
      this.#step({ type: "ready", engine: id });
      this.#at(this.now, () => {
        this.#forward();
        this.#tell();
      });
    });
  }

  #unload(id: WorkerId, process: Process): void {
    if (process.inFlight > 0) throw new Error(`${id} was unloaded with ${process.inFlight} requests`);
    if (process.at === "none" || process.at === "stopping") throw new Error(`${id} was unloaded while ${process.at}`);
    const sleeps = process.at === "ready" && this.#o.sleeps(id);
    process.at = "stopping";
    this.#at(this.now + 5, () => {
      process.at = sleeps ? "asleep" : "none";
      process.held = false;
      this.#step({ type: sleeps ? "asleep" : "gone", engine: id });
    });
  }

  #check(): void {
    const { engines, memoryBytes } = this.#o.rules;
    const there = engines.filter(({ id }) => ["loading", "ready", "stopping"].includes(this.#of(id).at));
    for (const a of there) {
      for (const b of there) {
        const share = a.gpus.some((gpu) => b.gpus.includes(gpu)) || a.group?.name === b.group?.name;
        if (a !== b && share && mustLeave(a, b)) throw new Error(`${a.id} and ${b.id} are loaded at once`);
      }
    }
    const taken = there.reduce((sum, each) => sum + each.memoryBytes, 0);
    if (memoryBytes !== undefined && taken > memoryBytes) throw new Error(`${taken} of ${memoryBytes} bytes are taken`);
    for (const { id } of engines) {
      const believes = isResident(this.#state.engines.get(id)!.phase);
      const is = ["loading", "ready", "stopping"].includes(this.#of(id).at);
      if (is && !believes) throw new Error(`${id} is ${this.#of(id).at}, and nobody knows`);
    }
  }

  #of(id: WorkerId): Process {
    return this.#processes.get(id)!;
  }
}

const comesBefore = (a: Due, b: Due | undefined): boolean =>
  b === undefined || a.atMs < b.atMs || (a.atMs === b.atMs && a.n < b.n);
