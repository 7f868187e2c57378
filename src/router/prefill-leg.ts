import type { UpstreamCall, UpstreamHandler, UpstreamRequest, Upstreams } from "../http/upstream.ts";
import type { UpstreamFailure } from "../http/upstream-failure.ts";
import type { Leg } from "../routing/load.ts";

/** How a leg ended whose answer is for the router and not for the client. */
export type QuietEnd =
  | {
      readonly type: "answer";
      readonly status: number;
      readonly headers: Readonly<Record<string, string | string[] | undefined>>;
      readonly body: Buffer;
    }
  | { readonly type: "failed"; readonly failure: UpstreamFailure }
  /** It was not wanted any more. */
  | { readonly type: "cut" };

/** A prefill answers one token: what is longer is no answer of its. Log probabilities of a token and their words fit easily. */
const MAX_BYTES = 16 * 1024 * 1024;

/**
 * A leg whose answer is read whole and not relayed: a prefill, or a decode that only lets blocks go. Resolves once, never rejects.
 */
export class QuietLeg implements UpstreamHandler, Leg {
  readonly #chunks: Buffer[] = [];
  /** Read on and thrown away: only the head and the end matter. */
  readonly #discard: boolean;
  #call: UpstreamCall | undefined;
  #head: { status: number; headers: Readonly<Record<string, string | string[] | undefined>> } | undefined;
  #size = 0;
  #resolve: (end: QuietEnd) => void = () => {};
  #over = false;

  /** @param discard throw the body of a 200 away: a streamed leg beside the one that the client gets */
  constructor(discard: boolean) {
    this.#discard = discard;
  }

  run(upstreams: Upstreams, origin: string, request: UpstreamRequest): Promise<QuietEnd> {
    return new Promise((resolve) => {
      this.#resolve = resolve;
      if (this.#over) return resolve({ type: "cut" });
      this.#call = upstreams.send(origin, request, this);
    });
  }

  /** Cut it: the client left, or the other leg is over. Harmless when it is over itself. */
  cut(): void {
    this.#finish({ type: "cut" });
  }

  lost(reason: string): void {
    this.onFailure({ kind: "lost", phase: this.#head === undefined ? "head" : "body", message: reason });
  }

  onHead(status: number, headers: Readonly<Record<string, string | string[] | undefined>>): void {
    this.#head = { status, headers };
  }

  onData(chunk: Buffer): boolean {
    if (this.#discard && this.#head?.status === 200) return true;
    this.#size += chunk.length;
    this.#chunks.push(chunk);
    if (this.#size > MAX_BYTES) {
      this.onFailure({ kind: "unusable", phase: "body", message: "its answer does not end" });
    }
    return true;
  }

  onEnd(): void {
    const head = this.#head;
    if (head === undefined) this.onFailure({ kind: "protocol", phase: "head", message: "it sent no answer" });
    else this.#finish({ type: "answer", ...head, body: Buffer.concat(this.#chunks) });
  }

  onFailure(failure: UpstreamFailure): void {
    this.#finish({ type: "failed", failure });
  }

  #finish(end: QuietEnd): void {
    if (this.#over) return;
    this.#over = true;
    this.#call?.abort();
    this.#resolve(end);
  }
}
