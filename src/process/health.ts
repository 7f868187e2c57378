/**
 * What a look at a running process says. `silent`: no answer in time, which a busy engine may do. `unasked`: the look could
 * not be made for want of something on this side (file descriptors), so it says nothing about the engine.
 */
export type Verdict = "ready" | "loading" | "failed" | "silent" | "unasked";

/** A look, or that the process computes nothing for its requests, in words. */
export type Look = Verdict | { readonly stalled: string };

/** What follows from an answer, with the reason for people. */
export interface Finding {
  readonly event: "probe-ok" | "probe-bad" | "probe-hung";
  readonly why?: string;
}

/** Bad answers in a row before a ready engine counts as sick. */
const BAD_ANSWERS = 2;
/** Looks without an answer, in a row, before a ready engine counts as hung. */
const SILENT_LOOKS = 3;

/** The answers of one run of a process, in order, and what they amount to. */
export class Health {
  #bad = 0;
  #silent = 0;
  #silentSince = 0;

  /** Its last look had no answer. */
  get isSilent(): boolean {
    return this.#silent > 0;
  }

  /**
   * Take in one answer.
   * @param loading it was not ready yet: then `loading` is what is expected, and `failed` is final by the probe's contract
   * @param askedMs when it was asked and when the answer (or the lack of one) was there, monotonic milliseconds
   */
  judge(look: Look, loading: boolean, askedMs: number, nowMs: number): Finding | undefined {
    if (typeof look !== "string") {
      this.#silent = 0;
      return { event: "probe-bad", why: look.stalled };
    }
    const verdict = look;
    if (verdict === "unasked") return undefined;
    if (verdict === "silent") {
      if (this.#silent++ === 0) this.#silentSince = askedMs;
      return this.#silent >= SILENT_LOOKS ? { event: "probe-hung", why: this.hungText(nowMs) } : undefined;
    }
    this.#silent = 0;
    if (verdict === "ready") {
      this.#bad = 0;
      return { event: "probe-ok" };
    }
    if (verdict === "loading" && loading) return undefined;
    this.#bad++;
    return loading || this.#bad >= BAD_ANSWERS
      ? { event: "probe-bad", why: "it says itself that it cannot serve" }
      : undefined;
  }

  /** How long it has said nothing, for people. */
  hungText(nowMs: number): string {
    const seconds = Math.max(1, Math.round((nowMs - this.#silentSince) / 1_000));
    return `hung: no answer to its health probe for ${seconds} s`;
  }
}
