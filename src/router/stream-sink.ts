import { BodyWriter } from "../http/body-writer.ts";
import { SseSplitter } from "../http/sse.ts";
import type { UpstreamFailure } from "../http/upstream-failure.ts";
import { type AnswerFacts, isObject, readAnswer } from "./answer.ts";
import type { ContinuedStream } from "./continuation.ts";
import { withoutUsage } from "./last-chunk.ts";
import {
  DONE,
  errorEvent,
  errorStatus,
  type LegEnd,
  PARSE_BYTES,
  parse,
  type Sink,
  type SinkContext,
} from "./sinks.ts";

/** So much of a stream without data (comments) is held back at most. */
const HELD_BYTES = 256 * 1024;

/**
 * A stream of events, passed on as it comes but only at the borders of events: a stream that breaks never leaves half of
 * one. Until the first event with data nothing is sent, so that another worker may still answer.
 */
export class StreamSink implements Sink {
  readonly #c: SinkContext;
  readonly #splitter = new SseSplitter();
  readonly #writer: BodyWriter;
  /** Nothing must be known of an event but its figures and its end. */
  readonly #plain: boolean;
  #out: Buffer[] = [];
  #held = 0;
  #started = false;
  /** What waits for the usage chunk that may follow it. */
  #last: Buffer | undefined;
  /** The stream's last event came: `[DONE]`, an error, or the end of an answer of the Messages or Responses API. */
  #over = false;
  /** It was `[DONE]`: nothing comes after it. */
  #done = false;
  /** An event with data was in the last chunk. */
  #heard = false;
  /** Events too large to understand: bytes go on as they come. */
  #blind = false;
  /** Said in the stream, which may go on elsewhere instead. */
  #failure: UpstreamFailure | undefined;

  constructor(c: SinkContext) {
    this.#c = c;
    this.#writer = new BodyWriter(c.res);
    this.#plain = !c.wantText && c.stream === undefined && c.mend === undefined;
  }

  data(chunk: Buffer): boolean | UpstreamFailure {
    if (this.#done) return true;
    if (this.#blind || (this.#plain && this.#started && this.#splitter.empty && this.#isOnlyText(chunk))) {
      this.#c.onPart();
      return this.#send(chunk);
    }
    this.#heard = false;
    this.#splitter.push(chunk, (event) => this.#event(event.raw, event.data));
    if (this.#splitter.overflowed) {
      this.#blind = this.#started = true;
      this.#release();
      this.#out.push(this.#splitter.flush()!);
    }
    if (this.#heard) this.#c.onPart();
    if (!this.#started && this.#held > HELD_BYTES) this.commit();
    const more = this.#started ? this.#flush() : true;
    return this.#failure ?? more;
  }

  /** Send what is held back although no data came yet: the client must see that something lives. */
  commit(): void {
    this.#started = true;
    if (!this.#c.res.headersSent) {
      this.#c.res.writeHead(this.#c.status, this.#c.headers);
      this.#c.res.flushHeaders();
    }
    this.#flush();
  }

  end(): LegEnd {
    const rest = this.#splitter.flush();
    const c = this.#c;
    if (c.mustFinish && !this.#blind && !this.#over && !c.facts.finished) {
      return this.fail({ kind: "reset", phase: "body", message: "its stream ended without a finish" });
    }
    this.#release();
    if (rest !== undefined && !this.#done) this.#out.push(rest);
    return this.#complete();
  }

  fail(failure: UpstreamFailure): LegEnd {
    if (!this.#started && (this.#c.opened || !this.#c.res.headersSent)) return { type: "retry", failure };
    // What is left of an event would make the error unreadable.
    this.#splitter.flush();
    this.#release();
    if (this.#over) return this.#complete();
    this.#flush();
    const { stream, facts, res } = this.#c;
    if (stream?.usable === true && !this.#blind) {
      if (!facts.finished) return { type: "cut", failure };
      // All of its text is there.
      res.end("data: [DONE]\n\n");
      return { type: "complete", status: this.#c.status };
    }
    this.#c.res.end(errorEvent(failure, this.#c.shape));
    return { type: "broken", failure };
  }

  #complete(): LegEnd {
    const { res, status, headers } = this.#c;
    if (!res.headersSent) res.writeHead(status, headers);
    this.#flush();
    res.end();
    return { type: "complete", status };
  }

  #flush(): boolean {
    if (this.#out.length === 0) return true;
    const bytes = this.#out.length === 1 ? this.#out[0]! : Buffer.concat(this.#out);
    this.#out = [];
    return this.#send(bytes);
  }

  #send(bytes: Buffer): boolean {
    if (!this.#c.res.headersSent) this.#c.res.writeHead(this.#c.status, this.#c.headers);
    return this.#writer.write(bytes);
  }

  /** Whole events with nothing in them but text, as nearly all are: they need not be taken apart. Finishes are noted. */
  #isOnlyText(chunk: Buffer): boolean {
    const last = chunk.length - 1;
    if (chunk[last] !== 10 || chunk[last - 1] !== 10 || chunk[0] !== 0x64 || last > MAX_TEXT_BYTES) return false;
    const text = chunk.toString("latin1");
    if (!text.startsWith("data: {") || NOT_ONLY_TEXT.test(text)) return false;
    const { facts, dropUsage } = this.#c;
    const finish = (dropUsage || !facts.finished) && FINISH.test(text);
    if (finish) facts.finished = true;
    // The usage chunk may have something that belongs into the one before it.
    return !dropUsage || !(finish || this.#last !== undefined);
  }

  #event(raw: Buffer, data: Buffer | undefined): void {
    if (this.#done || this.#failure !== undefined) return;
    if (data !== undefined) {
      this.#heard = true;
      if (!this.#started) {
        this.#started = true;
        this.#c.onFirst();
      }
      if (data.length === DONE.length && data.equals(DONE)) this.#done = this.#over = true;
      else if (this.#c.stream !== undefined) {
        this.#take(raw, data, this.#c.stream);
        return;
      } else {
        const usage = readEvent(data, this.#c);
        if (usage !== undefined && this.#c.dropUsage) {
          this.#release(usage);
          return;
        }
      }
      if (isLast(raw) || this.#c.facts.error !== undefined) this.#over = true;
      if (this.#over) this.#c.onOver();
    }
    this.#push((data === undefined ? undefined : this.#c.mend?.(data)) ?? raw, data !== undefined);
  }

  #push(raw: Buffer, ofAnswer: boolean): void {
    this.#release();
    if (!this.#started) this.#held += raw.length;
    const { dropUsage, facts } = this.#c;
    if (ofAnswer && dropUsage && facts.finished && !this.#over && FINISH.test(raw.toString("latin1"))) this.#last = raw;
    else this.#out.push(raw);
  }

  /** Nothing more is waited for. @param usage the usage chunk, which the client does not get */
  #release(usage?: unknown): void {
    if (this.#last === undefined) return;
    this.#out.push(usage === undefined ? this.#last : withoutUsage(this.#last, usage));
    this.#last = undefined;
  }

  /** An event of a stream that may go on elsewhere, or that went on here. */
  #take(raw: Buffer, data: Buffer, stream: ContinuedStream): void {
    const chunk = parse(data);
    if (isObject(chunk) && stream.usable && isServerError(chunk["error"])) {
      this.#failure = { kind: "protocol", phase: "body", message: "it told an error in its stream" };
      return;
    }
    const taken = stream.take(chunk);
    if (chunk !== undefined && taken === undefined) return;
    readAnswer(taken, this.#c.facts);
    if (this.#c.dropUsage && isUsageOnly(taken)) {
      this.#release(taken);
      return;
    }
    if (this.#c.facts.error !== undefined) {
      this.#over = true;
      this.#c.onOver();
    }
    this.#push(taken === chunk ? raw : Buffer.from(`data: ${JSON.stringify(taken)}\n\n`), true);
  }
}

/** The last event of an answer of the Messages or Responses API, or an error in the former's form. */
const LAST_EVENT = /^event: ?(?:message_stop|error|response\.(?:completed|incomplete|failed))\r?\n/;

function isLast(raw: Buffer): boolean {
  return raw[0] === 0x65 && LAST_EVENT.test(raw.toString("latin1", 0, 32));
}

/** An engine's error that is not the request's fault. */
function isServerError(error: unknown): boolean {
  return error !== undefined && error !== null && errorStatus(error) >= 500;
}

/** Take the figures of one event. @returns a chunk whose choices are none, with usage */
function readEvent(data: Buffer, c: SinkContext): unknown {
  if (data.length > PARSE_BYTES || (!c.wantText && !worthParsing(data, c.facts))) return undefined;
  const chunk = parse(data);
  readAnswer(chunk, c.facts);
  return isUsageOnly(chunk) ? chunk : undefined;
}

function isUsageOnly(chunk: unknown): boolean {
  if (!isObject(chunk)) return false;
  const { choices, usage } = chunk;
  return Array.isArray(choices) && choices.length === 0 && typeof usage === "object" && usage !== null;
}

/** What a read brings at most of small events. */
const MAX_TEXT_BYTES = 64 * 1024;

/** Events that must be looked at one by one: figures, errors, ends. */
const NOT_ONLY_TEXT = /"(?:usage|timings|error)"\s*:\s*[^\sn]|\[DONE\]|message_stop/;

const FINISH = /"finish_reason": ?"/;

/** A finish of a choice, or the event that ends an answer of the Messages API. */
const ENDS = /"finish_reason": ?"|^\{"type": ?"message_stop"/;

/** Some engines say null in each event. */
const FIGURES = /"(?:usage|timings|error)"\s*:\s*[^\sn]/;

/** Does an event hold figures, an end or an error? Most hold one token's text: 0.3 µs instead of a parse. */
function worthParsing(data: Buffer, facts: AnswerFacts): boolean {
  // Latin-1 keeps the bytes of what is looked for, and costs a copy of some hundred bytes.
  const text = data.toString("latin1");
  if (FIGURES.test(text)) return true;
  if (!facts.finished && ENDS.test(text)) facts.finished = true;
  return false;
}
