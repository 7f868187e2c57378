import { SseSplitter } from "../http/sse.ts";
import type { UpstreamFailure } from "../http/upstream-failure.ts";
import { readAnswer } from "./answer.ts";
import { AnswerFolder } from "./fold.ts";
import { DONE, errorStatus, type LegEnd, parse, type Sink, type SinkContext, unusable } from "./sinks.ts";

/** An answer that is folded from a stream may take so much of it; a million tokens with log probabilities take less. */
const FOLD_BYTES = 256 * 1024 * 1024;

/** A stream that becomes the whole answer which the client asked for (trait `foldNonStreaming`). */
export class FoldSink implements Sink {
  readonly #c: SinkContext;
  readonly #splitter = new SseSplitter();
  readonly #folder = new AnswerFolder();
  #bytes = 0;
  #done = false;

  constructor(c: SinkContext) {
    this.#c = c;
  }

  data(chunk: Buffer): boolean | UpstreamFailure {
    this.#bytes += chunk.length;
    this.#splitter.push(chunk, ({ data }) => {
      if (data === undefined || this.#done) return;
      if (data.equals(DONE)) {
        this.#done = true;
        this.#c.onOver();
        return;
      }
      this.#c.onFirst();
      this.#c.onPart();
      const parsed = parse(data);
      readAnswer(parsed, this.#c.facts);
      this.#folder.add(parsed);
    });
    if (this.#splitter.overflowed) return unusable("an event of its stream does not end");
    if (this.#bytes > FOLD_BYTES || this.#folder.overflowed) return unusable("its answer does not end");
    return true;
  }

  end(): LegEnd {
    const failure = { kind: "reset", phase: "body", message: "its stream ended without a finish" } as const;
    return this.#answer() ?? { type: "retry", failure };
  }

  fail(failure: UpstreamFailure): LegEnd {
    return (this.#done ? this.#answer() : undefined) ?? { type: "retry", failure };
  }

  #answer(): LegEnd | undefined {
    const c = this.#c;
    const answer = c.facts.error === undefined ? this.#folder.result() : { error: c.facts.error };
    if (answer === undefined) return undefined;
    const status = c.facts.error === undefined ? c.status : errorStatus(c.facts.error);
    const folded = Buffer.from(JSON.stringify(answer));
    const body = c.rewrite?.(status, folded) ?? folded;
    const { "transfer-encoding": _t, "cache-control": _c, ...headers } = c.headers;
    c.res.writeHead(status, {
      ...headers,
      "content-type": "application/json; charset=utf-8",
      "content-length": String(body.length),
    });
    c.res.end(body);
    return { type: "complete", status };
  }
}
