import { type WorkerId, workerId } from "../../core/ids.ts";
import type { Policy, WorkerSnapshot } from "../../routing/decision.ts";
import { Learning } from "../../routing/learning.ts";
import { Booking, LoadBook } from "../../routing/load.ts";
import { workerSnapshot } from "../../routing/snapshot.ts";
import type { Knowledge } from "./known-blocks.ts";
import type { RemoteLoads } from "./remote-loads.ts";
import type { LiveNames } from "./replay-options.ts";
import type { TraceRequest } from "./trace.ts";

/** What the live router's 256 bytes are, at four bytes a token. */
const PREFIX_TOKENS = 64;

/** All engines serve one model. */
const MODEL = "trace";

/** An engine chosen and booked for one leg of a request. */
export interface VirtualChoice {
  readonly engine: number;
  readonly booking: Booking;
  /** Predicted time to the first token, milliseconds. */
  readonly ttftMs: number;
  readonly cachedBlocks: number;
  readonly cachedTokens: number;
  readonly uncachedTokens: number;
  /** What was there before, for calibration. */
  readonly queuedTokens: number;
  readonly streams: number;
}

export interface VirtualRouterOptions {
  /** How many engines; they are numbered from 0. */
  readonly engines: number;
  readonly policy: Policy;
  readonly knowledge: Knowledge;
  readonly blockTokens: number;
  /** Names of a live fleet, where it is compared with one. */
  readonly live?: LiveNames | undefined;
  /** Requests in flight on one engine, where limited. */
  readonly perEngine: number | undefined;
  /** Of so many leading blocks that an engine holds, those on its device; absent: all, since there are no tiers. */
  readonly onDevice?: ((engine: number, blocks: TraceRequest["blocks"], count: number) => number) | undefined;
  /** What other routers are known to have in flight, where they tell. */
  readonly remote: RemoteLoads | undefined;
}

/**
 * One router in virtual time. The policy, the loads and what is learnt from answers are the live router's own code; rendering, matching by
 * bytes and the network are not here: a trace names its blocks.
 */
export class VirtualRouter {
  readonly #options: VirtualRouterOptions;
  readonly #ids: readonly WorkerId[];
  readonly #loads = new LoadBook();
  readonly #learning = new Learning();
  /** Time as it was last told. */
  readonly #clock = { at: 0, now: () => this.#clock.at };

  constructor(options: VirtualRouterOptions) {
    this.#options = options;
    this.#ids = Array.from({ length: options.engines }, (_, i) => workerId(options.live?.engines[i] ?? `engine/${i}`));
  }

  /** Choose among engines and book the place. Undefined: there are none. */
  choose(now: number, request: TraceRequest, among: readonly number[]): VirtualChoice | undefined {
    const { policy, knowledge } = this.#options;
    this.#clock.at = now;
    const free = this.#underCap(among);
    if (free.length === 0) return undefined;
    const depth = knowledge.match(now, request.blocks);
    const snapshots = free.map((engine) => this.#snapshot(now, engine, request, depth[engine]!));
    const facts = {
      model: MODEL,
      promptTokens: request.promptTokens,
      exact: true,
      prefix: (this.#options.live ?? this).prefixOf(request),
    };
    const decision = policy.choose(facts, snapshots);
    const chosen = snapshots[decision.index]!;
    const engine = free[decision.index]!;
    const booking = new Booking(this.#loads.of(chosen.id), chosen.uncachedTokens, this.#clock);
    this.#options.remote?.booked(now, engine, booking.tokens, booking);
    return {
      engine,
      booking,
      ttftMs: decision.candidates[decision.index]!.ttftMs,
      cachedBlocks: depth[engine]!,
      cachedTokens: chosen.cachedTokens,
      uncachedTokens: chosen.uncachedTokens,
      queuedTokens: chosen.queuedTokens,
      streams: chosen.streams,
    };
  }

  sent({ engine }: VirtualChoice, request: TraceRequest): void {
    this.#options.knowledge.sent(engine, request.blocks);
  }

  /** The leg's prompt is computed. */
  firstToken(now: number, choice: VirtualChoice): void {
    this.#clock.at = now;
    choice.booking.firstToken();
    this.#options.remote?.firstToken(now, choice.engine, choice.booking);
  }

  /** The leg is over; learn from it what it took and what was cached. */
  finished(
    now: number,
    choice: VirtualChoice,
    request: TraceRequest,
    seen: { readonly ttftMs: number; readonly cachedTokens: number },
  ): void {
    const { engine } = choice;
    this.#release(now, choice);
    this.#learning.observe(this.#ids[engine]!, MODEL, {
      uncachedTokens: Math.max(0, request.promptTokens - seen.cachedTokens),
      queuedTokens: choice.queuedTokens,
      streams: choice.streams,
      ttftMs: seen.ttftMs,
    });
    const { blockTokens, knowledge } = this.#options;
    const held = Math.ceil(seen.cachedTokens / blockTokens);
    // A prompt's last token is always computed, so the block that has it is computed anew, and is there all the same.
    const usable = Math.min(choice.cachedBlocks, Math.floor((request.promptTokens - 1) / blockTokens));
    if (held < usable) knowledge.correct(engine, request.blocks.slice(0, choice.cachedBlocks), held);
  }

  /** The leg came to nothing. */
  gaveUp(now: number, choice: VirtualChoice): void {
    this.#release(now, choice);
  }

  #release(now: number, { booking, engine }: VirtualChoice): void {
    this.#clock.at = now;
    booking.release();
    this.#options.remote?.ended(now, engine, booking);
  }

  /** An engine's process is gone, and its cache with it. */
  lost(engine: number): void {
    this.#loads.lost(this.#ids[engine]!, "the engine failed");
    this.#options.knowledge.clear(engine);
  }

  #underCap(among: readonly number[]): readonly number[] {
    const cap = this.#options.perEngine;
    if (cap === undefined) return among;
    const under = among.filter((engine) => this.#loads.of(this.#ids[engine]!).inFlight < cap);
    return under.length > 0 ? under : among;
  }

  #snapshot(now: number, engine: number, { promptTokens, blocks }: TraceRequest, depth: number): WorkerSnapshot {
    const { blockTokens, perEngine, remote, onDevice } = this.#options;
    const id = this.#ids[engine]!;
    // A prompt's last token is always computed.
    const cachedTokens = Math.min(depth * blockTokens, promptTokens - 1);
    const fetches = depth > 0 && onDevice !== undefined && onDevice(engine, blocks, depth) < depth;
    return workerSnapshot({
      id,
      load: this.#loads.of(id),
      others: remote === undefined ? [] : [remote.of(now, engine)],
      rates: this.#learning.rates(id, MODEL),
      promptTokens,
      cachedTokens,
      tier: fetches ? "host" : "device",
      nowMs: now,
      capacity: perEngine,
    });
  }

  /** The live router hashes a prompt's first bytes; a block's key names it with all before it. */
  prefixOf({ blocks }: TraceRequest): number {
    const last = Math.min(blocks.length, Math.ceil(PREFIX_TOKENS / this.#options.blockTokens)) - 1;
    return Math.imul((blocks[last] ?? 0) + 1, 0x9e3779b1) >>> 0;
  }
}
