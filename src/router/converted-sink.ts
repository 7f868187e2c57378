import { SseSplitter } from "../http/sse.ts";
import type { UpstreamFailure } from "../http/upstream-failure.ts";
import { isObject, readAnswer } from "./answer.ts";
import { apiErrorEvent } from "./api-errors.ts";
import type { StreamConversion } from "./convert/conversion.ts";
import { DONE, errorEvent, type LegEnd, type Sink, type SinkContext } from "./sinks.ts";

/** A stream of chat completion chunks that becomes the events of the API which the client speaks. */
export class ConvertedSink implements Sink {
  readonly #c: SinkContext;
  readonly #conversion: StreamConversion;
  readonly #splitter = new SseSplitter();
  #out = "";
  #started = false;
  #ended = false;

  constructor(c: SinkContext, conversion: StreamConversion) {
    this.#c = c;
    this.#conversion = conversion;
  }

  data(chunk: Buffer): boolean | UpstreamFailure {
    if (this.#ended) return true;
    this.#splitter.push(chunk, ({ data }) => {
      if (data !== undefined && !this.#ended) this.#event(data);
    });
    if (this.#splitter.overflowed)
      return { kind: "unusable", phase: "body", message: "an event of its stream does not end" };
    return this.#flush();
  }

  /** The client must see that something lives, although nothing came yet. */
  commit(): void {
    this.#started = true;
    if (this.#c.res.headersSent) return;
    this.#c.res.writeHead(this.#c.status, this.#c.headers);
    this.#c.res.flushHeaders();
  }

  end(): LegEnd {
    const { facts, res, status } = this.#c;
    if (!this.#ended && !facts.finished)
      return this.fail({ kind: "reset", phase: "body", message: "its stream ended without a finish" });
    if (!this.#ended) this.#out += this.#conversion.end();
    this.commit();
    res.end(this.#out);
    return { type: "complete", status };
  }

  fail(failure: UpstreamFailure): LegEnd {
    if (this.#ended) return this.end();
    if (!this.#started && (this.#c.opened || !this.#c.res.headersSent)) return { type: "retry", failure };
    this.#c.res.end(errorEvent(failure, this.#c.shape));
    return { type: "broken", failure };
  }

  #event(data: Buffer): void {
    const { facts, shape } = this.#c;
    if (data.length === DONE.length && data.equals(DONE)) {
      this.#done();
      return;
    }
    let chunk: unknown;
    try {
      chunk = JSON.parse(data.toString("utf8"));
    } catch {
      // No client could read it either.
      return;
    }
    if (!isObject(chunk)) return;
    this.#c.onPart();
    readAnswer(chunk, facts);
    if (!this.#started) {
      this.#started = true;
      this.#c.onFirst();
    }
    if (facts.error === undefined) {
      this.#out += this.#conversion.chunk(chunk);
      return;
    }
    this.#ended = true;
    this.#out += apiErrorEvent(errorOf(facts.error, shape), shape).toString();
    this.#c.onOver();
  }

  #done(): void {
    this.#c.onOver();
    if (!this.#c.facts.finished) return;
    this.#ended = true;
    this.#out += this.#conversion.end();
  }

  #flush(): boolean {
    if (this.#out === "") return true;
    const out = this.#out;
    this.#out = "";
    this.commit();
    return this.#c.res.write(out);
  }
}

/** An engine's error within its stream, in the form of the client's API. */
function errorOf(said: unknown, shape: SinkContext["shape"]): object {
  const message = isObject(said) && typeof said["message"] === "string" ? said["message"] : String(said);
  return shape === "anthropic"
    ? { type: "error", error: { type: "api_error", message } }
    : { error: { message, type: "server_error", code: null, param: null } };
}
