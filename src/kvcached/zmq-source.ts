import type { Dealer, Message, Subscriber } from "zeromq";
import type { Clock } from "../core/clock.ts";
import type { KvEventBatch } from "../core/kv-event.ts";
import { loadZeroMq, zeroMqProblem } from "../wire/load-zeromq.ts";
import { batchPieces } from "./batch-pieces.ts";
import { readLiveFrames, readReplyFrames, replayRequest } from "./event-frames.ts";
import {
  DEFAULT_SOURCE_POLICY,
  initialSource,
  type ResumePoint,
  type SourceInput,
  type SourcePolicy,
  type SourceState,
} from "./source-state.ts";
import { stepSource } from "./source-step.ts";
import { WorkTurns } from "./work-turns.ts";

/** What a ZMQ event source needs. */
export interface ZmqSourceOptions {
  readonly endpoint: string;
  readonly replay: string | undefined;
  /** Prefix of the topics subscribed to; "" takes all. */
  readonly topic: string;
  /** The engine's own decoder. @throws anything for a payload that it does not understand */
  readonly decode: (payload: Uint8Array) => KvEventBatch;
  /** The same in steps, for large payloads. */
  readonly steps?: (payload: Uint8Array) => Generator<undefined, KvEventBatch>;
  readonly clock: Clock;
  /** A full queue must not starve the router in the same process, nor many of them. Default: its own. */
  readonly turns?: WorkTurns;
  /** What is held already is what another run held up to here. */
  readonly resume?: ResumePoint | undefined;
  readonly policy?: SourcePolicy;
  /** Messages in order, replayed and live. */
  apply(batch: KvEventBatch, seq: number): void;
  /** Give a large batch in parts of a few milliseconds' work (`batchPieces()`). Default: as it came. */
  readonly inPieces?: boolean;
  clear(why: string): void;
  /** After each input that changed something to be seen. */
  changed(state: SourceState): void;
  /** The last thing the decoder said about a payload it did not understand. */
  malformed?(error: unknown): void;
}

/** Largest message taken from an engine. A batch of 10,000 blocks is under 2 MiB. */
const MAX_MESSAGE_BYTES = 32 * 1024 * 1024;
/** Larger payloads are decoded in steps: under a millisecond of work otherwise. */
const STEPPED_BYTES = 128 * 1024;
/** Messages queued in libzmq before it drops; a drop shows as a gap and is asked for again. */
const HIGH_WATER_MARK = 100_000;
const TICK_MS = 500;

/** Why events of an engine kind cannot be followed; undefined: they can. */
export function eventsProblem(kind: string, decode: unknown): string | undefined {
  if (decode !== undefined) return zeroMqProblem();
  return `${kind} publishes no KV events that are understood. Remove its event endpoint`;
}

/**
 * Follow one engine's KV events over ZMQ: a subscriber for live messages and, per replay, a dealer of its own (late replies
 * to an older request then cannot come). All decisions are `stepSource()`'s; this class only moves messages.
 */
export class ZmqSource {
  readonly #o: ZmqSourceOptions;
  readonly #turns: WorkTurns;
  readonly #sub: Subscriber;
  #dealer: Dealer | undefined;
  #state: SourceState;
  #stopTick: () => void = () => {};
  #closed = false;
  /** What is to be applied and waits for its slice, in order. */
  #work: { readonly seq: number; readonly pieces: Iterator<KvEventBatch>; readonly lastTs: number | undefined }[] = [];
  /** Engine clock of the last message that was given to be applied. */
  #pushedTs: number | undefined;
  #working: Promise<void> | undefined;

  /** @throws CgnError NOT_SUPPORTED without the ZeroMQ binding */
  constructor(options: ZmqSourceOptions) {
    this.#o = options;
    this.#turns = options.turns ?? new WorkTurns(options.clock);
    this.#state = initialSource(options.replay !== undefined, options.clock.now(), options.resume);
    this.#pushedTs = this.#state.lastTs;
    this.#sub = new (loadZeroMq().Subscriber)({
      receiveHighWaterMark: HIGH_WATER_MARK,
      maxMessageSize: MAX_MESSAGE_BYTES,
      reconnectInterval: 100,
      reconnectMaxInterval: 1_000,
      // After a cut of the network, TCP alone would try again only after many seconds.
      heartbeatInterval: 1_000,
      heartbeatTimeout: 3_000,
      connectTimeout: 1_500,
      linger: 0,
      tcpKeepalive: 1,
    });
  }

  get state(): SourceState {
    return this.#state;
  }

  /** Where another run may go on with what is applied so far; undefined: what is applied could not be proved. */
  get resumePoint(): ResumePoint | undefined {
    const { next, lastTs, holding } = this.#state;
    const at =
      this.#work[0] === undefined ? { next, lastTs } : { next: this.#work[0].seq, lastTs: this.#work[0].lastTs };
    return holding && at.next > 0 && at.lastTs !== undefined ? { next: at.next, lastTs: at.lastTs } : undefined;
  }

  /** Connect and go on until `close()`. */
  start(): void {
    const sub = this.#sub;
    sub.events.on("handshake", () => this.#feed({ type: "connected" }));
    sub.events.on("disconnect", () => this.#feed({ type: "disconnected" }));
    sub.subscribe(this.#o.topic);
    sub.connect(this.#o.endpoint);
    void this.#receive();
    this.#tick();
  }

  /** Told by the agent, ahead of the engine. */
  notice(what: "restarted" | "reset"): void {
    this.#feed({ type: "notice", what });
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#stopTick();
    this.#sub.close();
    this.#dealer?.close();
  }

  #tick(): void {
    this.#stopTick = this.#o.clock.after(TICK_MS, () => {
      this.#feed({ type: "tick" });
      if (!this.#closed) this.#tick();
    });
  }

  async #receive(): Promise<void> {
    try {
      for await (const frames of this.#sub) {
        const read = readLiveFrames(frames as Message[]);
        if (read.kind !== "message") this.#feed({ type: "garbage" });
        else this.#feed({ type: "live", seq: read.seq, batch: await this.#decode(read.payload) });
        await this.#working;
        if (!this.#turns.hasTime()) await this.#turns.next();
      }
    } catch (error) {
      if (!this.#closed) this.#o.malformed?.(error);
    }
  }

  async #replay(request: number, from: number): Promise<void> {
    this.#dealer?.close();
    const endpoint = this.#o.replay;
    if (endpoint === undefined || this.#closed) return;
    const dealer = new (loadZeroMq().Dealer)({
      receiveHighWaterMark: HIGH_WATER_MARK,
      maxMessageSize: MAX_MESSAGE_BYTES,
      reconnectInterval: 100,
      reconnectMaxInterval: 2_000,
      linger: 0,
    });
    this.#dealer = dealer;
    try {
      dealer.connect(endpoint);
      await dealer.send(replayRequest(from) as [Uint8Array, Uint8Array]);
      for await (const frames of dealer) {
        if (this.#closed || this.#dealer !== dealer) break;
        const read = readReplyFrames(frames as Message[]);
        if (read.kind === "end") {
          this.#feed({ type: "replay-end", request });
          break;
        }
        if (read.kind === "garbage") this.#feed({ type: "garbage" });
        else this.#feed({ type: "reply", request, seq: read.seq, batch: await this.#decode(read.payload) });
        await this.#working;
        if (!this.#turns.hasTime()) await this.#turns.next();
      }
    } catch (error) {
      // A closed socket ends the loop this way: a newer request, or the end of the source.
      if (!this.#closed && this.#dealer === dealer) this.#o.malformed?.(error);
    } finally {
      if (this.#dealer === dealer) this.#dealer = undefined;
      dealer.close();
    }
  }

  #decode(payload: Uint8Array): KvEventBatch | undefined | Promise<KvEventBatch | undefined> {
    // Nobody would look at it.
    if (this.#state.at === "failed") return undefined;
    try {
      const { steps } = this.#o;
      if (steps !== undefined && payload.length > STEPPED_BYTES) return this.#decodeInSteps(steps(payload));
      return this.#o.decode(payload);
    } catch (error) {
      this.#o.malformed?.(error);
      return undefined;
    }
  }

  async #decodeInSteps(steps: Generator<undefined, KvEventBatch>): Promise<KvEventBatch | undefined> {
    try {
      for (;;) {
        const step = steps.next();
        if (step.done) return step.value;
        if (!this.#turns.hasTime()) await this.#turns.next();
        if (this.#closed) return undefined;
      }
    } catch (error) {
      this.#o.malformed?.(error);
      return undefined;
    }
  }

  #feed(input: SourceInput): void {
    if (this.#closed) return;
    const before = this.#state;
    const [state, ...effects] = stepSource(before, input, this.#o.clock.now(), this.#o.policy ?? DEFAULT_SOURCE_POLICY);
    this.#state = state;
    for (const effect of effects) {
      if (effect.do === "apply") {
        this.#work.push({ seq: effect.seq, pieces: this.#piecesOf(effect.batch), lastTs: this.#pushedTs });
        this.#pushedTs = effect.batch.ts;
      } else if (effect.do === "request-replay") void this.#replay(effect.request, effect.from);
      else {
        // What waits would be forgotten at once.
        this.#work = [];
        this.#pushedTs = undefined;
        this.#o.clear(effect.why);
      }
    }
    // A replay of a source that is not listened to is of no use.
    if (state.at === "failed") this.#dealer?.close();
    this.#working ??= this.#applyWork();
    const changed = state.at !== before.at || state.detail !== before.detail || state.proving !== before.proving;
    if (changed) this.#o.changed(state);
  }

  /** Apply what waits: a slice at once, the rest in slices with the event loop's turn between them. Undefined: all is done. */
  #applyWork(): Promise<void> | undefined {
    for (let at = 0; !this.#closed; ) {
      const work = this.#work[at];
      if (work === undefined) break;
      if (!this.#turns.hasTime()) {
        this.#work.splice(0, at);
        return this.#applyLater();
      }
      const piece = work.pieces.next();
      if (piece.done) at++;
      else this.#o.apply(piece.value, work.seq);
    }
    this.#work = [];
    return undefined;
  }

  #piecesOf(batch: KvEventBatch): Iterator<KvEventBatch> {
    return this.#o.inPieces === true ? batchPieces(batch) : [batch].values();
  }

  async #applyLater(): Promise<void> {
    await this.#turns.next();
    this.#working = undefined;
    this.#working = this.#applyWork();
    await this.#working;
  }
}
