import type { Clock } from "../../core/clock.ts";
import type { Told } from "./answer-shapes.ts";
import { EngineLoop } from "./engine-loop.ts";
import type { Fault } from "./faults.ts";
import type { TransferSide } from "./hand-over.ts";
import { encodeBatch } from "./kv-encode.ts";
import { KvPublisher, rankEndpoints } from "./kv-publisher.ts";
import { SlotBoard } from "./llama/llama-slots.ts";
import type { Active } from "./run-generation.ts";
import { SglangTransfer } from "./sglang-transfer.ts";
import type { SimOptions } from "./sim-options.ts";
import { SimSleep } from "./sim-sleep.ts";
import { vllmError } from "./vllm-bodies.ts";
import { VllmTransfer } from "./vllm-transfer.ts";

/** What a simulated engine needs of the machine. */
export interface SimDeps {
  readonly clock: Clock;
  /** Unique 32 hex digits. */
  newId(): string;
  /** End the process as SIGKILL does. */
  crash(): void;
  /** End the process in order. */
  exit(code: number): void;
}

/** `dead`: the API answers, the engine behind it is gone. */
export type Phase = "loading" | "ready" | "draining" | "dead";

/** How long vLLM's API server outlives its engine (seen on 0.32.0). */
const OUTLIVES_MS = 3_600;

/** One data-parallel rank: a model with its cache, and where it tells of it. */
export interface SimRank {
  readonly loop: EngineLoop;
  readonly publisher: KvPublisher | undefined;
}

/** One simulated engine without its HTTP: model, events, faults, what is under way. */
export class SimEngine {
  readonly options: SimOptions;
  readonly deps: SimDeps;
  readonly ranks: readonly SimRank[];
  readonly active = new Set<Active>();
  readonly sleep = new SimSleep(this);
  /** llama-server's. */
  readonly slots: SlotBoard | undefined;
  /** Prefill → decode. */
  readonly transfer: TransferSide | undefined;
  /** Sums over answers. */
  readonly tallied = { promptMs: 0, predictedMs: 0, longest: 0 };
  phase: Phase = "loading";
  #hang: "all" | "generation" | undefined;
  #errors = 0;
  #cut: { chunks: number; count: number } = { chunks: 0, count: 0 };
  #onIdle: (() => void) | undefined;

  constructor(options: SimOptions, deps: SimDeps) {
    this.options = options;
    this.deps = deps;
    this.slots = options.kind === "llama_cpp" ? new SlotBoard(options.limits, options.maxModelTokens) : undefined;
    this.ranks = Array.from({ length: options.ranks ?? 1 }, (_, rank) => startRank(options, deps, rank));
    const { nixl, bootstrap } = options;
    this.transfer =
      nixl !== undefined
        ? new VllmTransfer(nixl, this)
        : bootstrap === undefined
          ? undefined
          : new SglangTransfer(bootstrap, this);
  }

  /** Of rank 0. */
  get loop(): EngineLoop {
    return this.ranks[0]!.loop;
  }

  get publisher(): KvPublisher | undefined {
    return this.ranks[0]!.publisher;
  }

  /** Where a request is computed: on the rank that it names, else on the one with the least to do. */
  rankFor(named: number | undefined): SimRank {
    const [first, ...others] = this.ranks;
    const load = ({ loop: { model } }: SimRank) => model.running + model.waiting;
    return (
      (named === undefined ? undefined : this.ranks[named]) ??
      others.reduce((least, each) => (load(each) < load(least) ? each : least), first!)
    );
  }

  /** Stop computing, on all ranks. */
  freeze(): void {
    for (const { loop } of this.ranks) loop.freeze();
  }

  async closePublishers(): Promise<void> {
    await this.transfer?.close();
    await Promise.all(this.ranks.map(({ publisher }) => publisher?.close()));
  }

  /** Open the event sockets; SGLang begins with an empty cache, said aloud as batch 0. */
  async open(): Promise<void> {
    const { events } = this.options;
    await this.transfer?.open();
    for (const [rank, { publisher }] of this.ranks.entries()) {
      await publisher?.open();
      if (this.options.kind !== "sglang" || events === undefined) continue;
      publisher?.publish(encodeBatch([{ type: "cleared" }], this.deps.clock.wall() / 1000, events.encoding, rank));
    }
    for (const fault of this.options.faults) this.apply(fault);
  }

  apply(fault: Fault): void {
    switch (fault.kind) {
      case "crash":
        this.deps.crash();
        return;
      case "engine-crash":
        this.#die();
        return;
      case "hang":
        this.#hang = fault.for ?? "all";
        return;
      case "slow":
        for (const { loop } of this.ranks) loop.slow(fault.factor);
        return;
      case "drop-events":
        if (this.publisher !== undefined) this.publisher.faults.drop = fault.count;
        return;
      case "reorder-events":
        if (this.publisher !== undefined) this.publisher.faults.reorder = true;
        return;
      case "error-500":
        this.#errors = fault.count;
        return;
      case "cut-stream":
        this.#cut = { chunks: fault.chunks, count: fault.count };
        return;
      case "full-cache":
        for (const { loop } of this.ranks) loop.fill(true);
        return;
      case "clear":
        this.#clearFaults();
        return;
    }
  }

  /** Must this request go without an answer? */
  hangs(generation: boolean): boolean {
    return this.#hang === "all" || (this.#hang === "generation" && generation);
  }

  /** Must this generation fail? Counts it off. */
  takeError(): boolean {
    return this.#errors > 0 && this.#errors-- > 0;
  }

  /** After how many chunks must this stream be cut? Counts it off. */
  takeCut(): number | undefined {
    if (this.#cut.count <= 0) return undefined;
    this.#cut.count--;
    return this.#cut.chunks;
  }

  /** Whatever is under way ends with vLLM's internal error. */
  failAll(message: string): void {
    const body = vllmError(500, "InternalServerError", message);
    for (const active of [...this.active]) active.fail(500, body);
  }

  /** Streams break off. */
  cutStreams(): void {
    for (const active of [...this.active]) active.cut();
  }

  /** An answer is whole. */
  tally({ promptMs, predictedMs, generated }: Told, promptTokens: number): void {
    this.tallied.promptMs += promptMs;
    this.tallied.predictedMs += predictedMs;
    this.tallied.longest = Math.max(this.tallied.longest, promptTokens + (generated[0] ?? 0));
  }

  ended(active: Active): void {
    this.active.delete(active);
    if (this.active.size === 0) this.#onIdle?.();
  }

  /** Resolves when nothing is under way, or after `ms`: true when all was done. */
  async idle(ms: number): Promise<boolean> {
    if (this.active.size === 0) return true;
    return new Promise<boolean>((resolve) => {
      const cancel = Number.isFinite(ms) ? this.deps.clock.after(ms, () => resolve(false)) : () => {};
      this.#onIdle = () => {
        cancel();
        resolve(true);
      };
    });
  }

  /** An SGLang whose child fails kills itself; a vLLM lingers, and its exit code does not tell. */
  #die(): void {
    if (this.options.kind !== "vllm") {
      this.deps.crash();
      return;
    }
    this.phase = "dead";
    this.freeze();
    this.failAll("EngineCore encountered an issue. See stack trace (above) for the root cause.");
    this.deps.clock.after(OUTLIVES_MS, () => this.deps.exit(0));
  }

  #clearFaults(): void {
    this.#hang = undefined;
    this.#errors = 0;
    this.#cut = { chunks: 0, count: 0 };
    for (const { loop, publisher } of this.ranks) {
      loop.slow(1);
      loop.fill(false);
      if (publisher === undefined) continue;
      publisher.faults.drop = 0;
      publisher.faults.reorder = false;
    }
  }
}

function startRank(options: SimOptions, deps: SimDeps, rank: number): SimRank {
  const { events, host } = options;
  const publisher = events === undefined ? undefined : new KvPublisher(rankEndpoints(events, rank), host);
  const loop = new EngineLoop(options, deps.clock, (batch) => {
    if (events !== undefined) publisher?.publish(encodeBatch(batch, deps.clock.wall() / 1000, events.encoding, rank));
  });
  return { loop, publisher };
}
