import { SseSplitter } from "../http/sse.ts";
import type { UpstreamHandler } from "../http/upstream.ts";
import type { UpstreamFailure } from "../http/upstream-failure.ts";
import type { JudgeInput } from "../routing/cascade-judge.ts";
import { logprobsOf, withoutLogprobs } from "./logprobs.ts";
import { DONE, parse } from "./sinks.ts";

/** Who judges what comes. */
export interface AnswerJudge {
  feed(inputs: readonly JudgeInput[]): void;
  ended(): void;
  decide(): void;
}

/** More of a whole answer is not read. */
const WHOLE_BYTES = 16 * 1024 * 1024;

/**
 * Between an engine and the relay of its answer: shows the tokens' log probabilities to a judge, and takes them out where the client did
 * not ask for them. What does not look like such an answer passes as it is.
 */
export class AnswerTap implements UpstreamHandler {
  readonly #to: UpstreamHandler;
  readonly #strip: "null" | "absent" | undefined;
  readonly #judge: AnswerJudge;
  readonly #splitter = new SseSplitter();
  #way: "events" | "whole" | "as it is" = "as it is";
  #whole: Buffer[] = [];
  #bytes = 0;
  /** A choice ended, or the stream said that it is over: what came is no fragment. */
  #finished = false;

  /** @param strip how the engine has the member `logprobs` when nobody asks; undefined: it stays */
  constructor(to: UpstreamHandler, strip: "null" | "absent" | undefined, judge: AnswerJudge) {
    this.#to = to;
    this.#strip = strip;
    this.#judge = judge;
  }

  onHead(status: number, headers: Readonly<Record<string, string | string[] | undefined>>): void {
    const type = String(headers["content-type"] ?? "");
    if (status === 200 && type.startsWith("text/event-stream")) this.#way = "events";
    else if (status === 200 && type.startsWith("application/json")) this.#way = "whole";
    if (this.#way !== "whole") {
      this.#to.onHead(status, headers);
      return;
    }
    // Its length changes; the relay sets the client's own.
    const { "content-length": length, ...rest } = headers;
    this.#to.onHead(status, length === undefined ? rest : { ...rest, "transfer-encoding": "chunked" });
  }

  onData(chunk: Buffer): boolean {
    if (this.#way === "as it is") return this.#to.onData(chunk);
    if (this.#way === "whole") return this.#keep(chunk);
    const out: Buffer[] = [];
    this.#splitter.push(chunk, ({ raw, data }) => out.push(this.#event(raw, data)));
    if (this.#splitter.overflowed) {
      this.#way = "as it is";
      this.#judge.ended();
      out.push(this.#splitter.flush()!);
    }
    const more = out.length === 0 || this.#to.onData(out.length === 1 ? out[0]! : Buffer.concat(out));
    this.#judge.decide();
    return more;
  }

  onEnd(): void {
    const rest = this.#way === "whole" ? this.#wholeAnswer() : this.#splitter.flush();
    if (rest !== undefined && rest.length > 0) this.#to.onData(rest);
    if (this.#finished) {
      this.#judge.ended();
      this.#judge.decide();
    }
    this.#to.onEnd();
  }

  onFailure(failure: UpstreamFailure): void {
    this.#to.onFailure(failure);
  }

  #keep(chunk: Buffer): boolean {
    this.#whole.push(chunk);
    this.#bytes += chunk.length;
    if (this.#bytes <= WHOLE_BYTES) return true;
    this.#way = "as it is";
    this.#judge.ended();
    const more = this.#to.onData(Buffer.concat(this.#whole.splice(0)));
    this.#judge.decide();
    return more;
  }

  #wholeAnswer(): Buffer {
    const body = Buffer.concat(this.#whole.splice(0));
    const answer = parse(body);
    if (answer === undefined) return body;
    this.#finished = true;
    this.#judge.feed(logprobsOf(answer, true));
    if (this.#strip === undefined) return body;
    return Buffer.from(JSON.stringify(withoutLogprobs(answer, this.#strip)));
  }

  #event(raw: Buffer, data: Buffer | undefined): Buffer {
    if (data === undefined) return raw;
    if (data.equals(DONE)) {
      this.#finished = true;
      return raw;
    }
    const chunk = parse(data);
    if (chunk === undefined) return raw;
    const choices = logprobsOf(chunk, false);
    if (choices.some(({ ended }) => ended)) this.#finished = true;
    this.#judge.feed(choices);
    if (this.#strip === undefined || !raw.includes(MEMBER)) return raw;
    return Buffer.from(`data: ${JSON.stringify(withoutLogprobs(chunk, this.#strip))}\n\n`);
  }
}

const MEMBER = '"logprobs"';
