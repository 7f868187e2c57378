import type { WorkerInfo } from "../core/worker.ts";
import type { Leg } from "../routing/load.ts";
import type { AnswerFacts } from "./answer.ts";
import type { ReadRequest } from "./read.ts";
import type { AnswerLimits } from "./relay.ts";
import type { Prompt } from "./render.ts";
import type { LegEnd } from "./sinks.ts";

/**
 * A client whose connection another thread has. That thread reads, renders and relays; all that requests share (who may ask, who waits,
 * who is chosen, what is booked and learnt) is here.
 */
export interface AwayClient {
  readonly isAway: true;
  /**
   * The request as far as it must be known here. Its `body` is empty and `away` is set.
   * @throws CgnError REQUEST_INVALID, REQUEST_TOO_LARGE, CALLER_LEFT
   */
  read(): ReadRequest | Promise<ReadRequest>;
}

/** A request whose body is with another thread, and what that thread can be asked for. */
export interface AwayRequest {
  /** Its whole answer can be made of a stream's events. */
  readonly canFold: boolean;
  /** Bytes of its texts, once its prompt is known not to be rendered. */
  readonly textBytes: number;
  /** Its prompt, under `request.root`. Never rejects but with CALLER_LEFT. */
  prompt(request: ReadRequest): Prompt | Promise<Prompt>;
  /**
   * The request with its body, for what is done here: another form of it, two legs, a stream that may go on elsewhere.
   * @throws CgnError CALLER_LEFT
   */
  bring(): Promise<ReadRequest>;
  /** Send it to a worker, from there, and relay the answer. */
  leg(order: LegOrder): AwayLeg;
}

/** What a thread must know to carry one leg, besides the request that it has. */
export interface LegOrder {
  readonly worker: WorkerInfo;
  /** As the router calls it. */
  readonly model: string;
  /** Path and query on the worker. */
  readonly target: string | undefined;
  readonly fresh: boolean;
  /** Its subject showed a key of ours, which engines must not get. */
  readonly authenticated: boolean;
  readonly engineKey: string | undefined;
  readonly traceparent: string | undefined;
  /** The client's stream has begun with comments. */
  readonly opened: boolean;
  /** Of the router's own, on the answer. */
  readonly headers: Readonly<Record<string, string>>;
  readonly wantText: boolean;
  readonly seesFirst: boolean;
  readonly limits: AnswerLimits;
  /** Filled as the answer tells. */
  readonly facts: AnswerFacts;
  onHead(): void;
  /** First sign of generated text, once. */
  onFirst(): void;
}

/** A leg that another thread carries. */
export interface AwayLeg extends Leg {
  /**
   * Send it. As `Relay.run()`.
   * @throws CgnError REQUEST_INVALID for a body that cannot be passed on
   */
  run(): Promise<LegEnd>;
}
