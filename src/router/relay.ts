import type { Clock } from "../core/clock.ts";
import { whenDrained } from "../http/body-writer.ts";
import { forwardResponseHeaders, localLocation } from "../http/headers.ts";
import type { UpstreamCall, UpstreamHandler, UpstreamRequest, Upstreams } from "../http/upstream.ts";
import type { UpstreamFailure } from "../http/upstream-failure.ts";
import type { Leg } from "../routing/load.ts";
import { isMissing } from "./abilities.ts";
import type { Exchange } from "./accept.ts";
import type { AnswerFacts } from "./answer.ts";
import { AnswerTimer } from "./answer-timer.ts";
import { rewriter } from "./api-errors.ts";
import type { ContinuedStream } from "./continuation.ts";
import { ResponsesMender } from "./convert/responses-mend.ts";
import { ConvertedSink } from "./converted-sink.ts";
import { FoldSink } from "./fold-sink.ts";
import type { LegConversion } from "./leg-requests.ts";
import { OpenedSink } from "./opened-stream.ts";
import { type LegEnd, RawSink, type Sink, type SinkContext, WholeSink } from "./sinks.ts";
import { StreamSink } from "./stream-sink.ts";

/** How long the answer may take, in ms; 0: no limit. */
export interface AnswerLimits {
  readonly firstTokenMs: number;
  readonly answerMs: number;
  readonly stallMs: number;
}

/** What the relay of one leg needs besides the network. */
export interface RelayPlan {
  readonly exchange: Exchange;
  readonly facts: AnswerFacts;
  /** Headers of the router's own on the answer. */
  readonly headers: Readonly<Record<string, string>>;
  readonly mustFinish: boolean;
  readonly wantText: boolean;
  readonly dropUsage: boolean;
  /** A stream was asked for, by the client or to be folded. */
  readonly streams: boolean;
  /** The client wants a whole answer, the engine was asked for a stream. */
  readonly fold: boolean;
  /** The engine is asked for a chat completion in place of the client's API. */
  readonly convert: LegConversion | undefined;
  /** The stream's events are those of Responses, and leave out what clients count on. */
  readonly mendEvents: boolean;
  /** What the client has of a stream that may go on elsewhere. */
  readonly stream?: ContinuedStream | undefined;
  readonly clock: Clock;
  readonly limits: AnswerLimits;
  /** The engine's answer has begun. */
  onHead?(): void;
  /** First sign of generated text, once. */
  onFirst(): void;
}

/** After the last event of its stream an engine has so long to end its answer. Nothing but that end is missing. */
const END_MS = 1_000;

/** A stream that shows no data for so long gets its head all the same, so that clients and proxies wait on. */
const COMMIT_MS = 15_000;

/**
 * Send a request to one worker and pass its answer to the client. Resolves when the leg is over, in whichever way; never
 * rejects. The leg is cut at once when the client leaves or the worker is lost.
 */
export class Relay implements UpstreamHandler, Leg {
  place: number | undefined;
  readonly #plan: RelayPlan;
  #call: UpstreamCall | undefined;
  #sink: Sink | undefined;
  #resolve: (end: LegEnd) => void = () => {};
  #over = false;
  /** The URL that the engine is asked by. */
  #from = "";
  /** The path without the query. */
  #path = "";
  #cancelCommit: (() => void) | undefined;
  #timer: AnswerTimer | undefined;

  constructor(plan: RelayPlan) {
    this.#plan = plan;
  }

  run(upstreams: Upstreams, origin: string, request: UpstreamRequest): Promise<LegEnd> {
    return new Promise((resolve) => {
      this.#resolve = resolve;
      this.#from = origin + request.path;
      this.#path = request.path.split("?", 1)[0]!;
      this.#plan.exchange.relay = this;
      if (this.#plan.exchange.left) return this.#finish({ type: "left" });
      const handler = this.#plan.exchange.cascade?.tap(this) ?? this;
      this.#call = upstreams.send(origin, { ...request, headersTimeoutMs: 0, idleTimeoutMs: 0 }, handler);
      const { clock, limits, streams } = this.#plan;
      const { firstTokenMs, answerMs, stallMs } = limits;
      const first = streams
        ? { ms: firstTokenMs, key: "first_token_timeout" }
        : { ms: answerMs, key: "answer_timeout" };
      this.#timer = new AnswerTimer(clock, first, stallMs, (message) =>
        this.onFailure({ kind: "timeout", phase: this.#sink === undefined ? "head" : "body", message }),
      );
    });
  }

  /** The client is gone: the engine's work is cut. */
  clientLeft(): void {
    this.#finish({ type: "left" });
  }

  /** The worker is gone, whatever its connection says: a killed engine's socket may stay open. */
  lost(reason: string): void {
    if (!this.#over)
      this.onFailure({ kind: "lost", phase: this.#sink === undefined ? "head" : "body", message: reason });
  }

  onHead(status: number, headers: Readonly<Record<string, string | string[] | undefined>>): void {
    const { exchange, headers: own, clock } = this.#plan;
    this.#plan.onHead?.();
    const location = headers["location"];
    let passed = headers;
    if (location !== undefined) {
      // The engine's own address is of no use to clients, and none of their business.
      const local = localLocation(String(location), this.#from);
      if (local === undefined && status >= 300 && status < 400) {
        this.onFailure({ kind: "unusable", phase: "head", message: "it redirects to another address" });
        return;
      }
      passed = { ...headers, location: local };
    }
    const { convert, mendEvents, stream } = this.#plan;
    const continued = stream !== undefined && stream.legs > 1;
    if (continued && (status !== 200 || !isEvents(headers))) {
      this.onFailure({ kind: "unusable", phase: "head", message: `it does not go on with the answer (${status})` });
      return;
    }
    const rewrite = rewriter(exchange, convert);
    const mender = mendEvents && convert === undefined ? new ResponsesMender() : undefined;
    const { facts, mustFinish, wantText, dropUsage } = this.#plan;
    const context: SinkContext = {
      facts,
      mustFinish,
      wantText,
      dropUsage,
      stream,
      res: exchange.res,
      shape: exchange.shape,
      lacks: (code, body) => (isMissing(code, body, this.#path) ? this.#path : undefined),
      rewrite,
      mend: mender === undefined ? undefined : (data) => mender.mend(data),
      opened: exchange.opened || continued,
      status,
      headers: forwardResponseHeaders(passed, own),
      untilClose: headers["content-length"] === undefined && headers["transfer-encoding"] === undefined,
      onFirst: () => this.#first(),
      onPart: () => this.#timer?.heard(),
      onOver: () => this.#timer?.ending(END_MS),
    };
    const type = String(headers["content-type"] ?? "");
    const events = isEvents(headers);
    if (status === 200 && events && this.#plan.fold) {
      this.#sink = new FoldSink(context);
    } else if (events) {
      const sink =
        convert === undefined || status !== 200
          ? new StreamSink(context)
          : new ConvertedSink(context, convert.by.stream(convert.asked));
      this.#sink = sink;
      this.#cancelCommit = clock.after(COMMIT_MS, () => sink.commit());
    } else if (exchange.opened) {
      this.#sink = new OpenedSink(context, (body) => isRetryable(status, body));
    } else if (headers["content-length"] !== undefined || type.startsWith("application/json") || status >= 400) {
      this.#sink = new WholeSink(context, (body) => isRetryable(status, body));
    } else {
      this.#sink = new RawSink(context);
    }
  }

  onData(chunk: Buffer): boolean {
    const taken = this.#sink?.data(chunk) ?? true;
    if (taken === true) return true;
    if (taken !== false) {
      this.onFailure(taken);
      return true;
    }
    this.#timer?.pause();
    whenDrained(this.#plan.exchange.res, () => {
      this.#timer?.resume();
      this.#call?.resume();
    });
    return false;
  }

  onEnd(): void {
    const ended = this.#sink?.end();
    this.#finish(
      ended ?? { type: "retry", failure: { kind: "protocol", phase: "head", message: "it sent no answer" } },
    );
  }

  onFailure(failure: UpstreamFailure): void {
    this.#finish(this.#sink?.fail(failure) ?? { type: "retry", failure });
  }

  #first(): void {
    this.#cancelCommit?.();
    this.#cancelCommit = undefined;
    this.#plan.onFirst();
  }

  #finish(end: LegEnd): void {
    if (this.#over) return;
    this.#over = true;
    this.#cancelCommit?.();
    this.#timer?.stop();
    this.#plan.exchange.relay = undefined;
    // Harmless after its end; cuts the engine's work when the client left or the worker was lost.
    this.#call?.abort();
    this.#resolve(end);
  }
}

const isEvents = (headers: Readonly<Record<string, string | string[] | undefined>>): boolean =>
  String(headers["content-type"] ?? "").startsWith("text/event-stream");

/**
 * Answers of an engine that another one may better: it is not there, loading or draining. vLLM 0.32 answers 500 "cannot
 * schedule new futures after shutdown" to new requests while it drains (seen). Any other 500 is this request's own fault.
 */
function isRetryable(status: number, body: Buffer): boolean {
  if (status === 502 || status === 503 || status === 504) return true;
  return status === 500 && body.includes("cannot schedule new futures");
}
