import type { CacheUse, Timing } from "./output.ts";
import { type AnyRequest, isKeyed } from "./request.ts";
import { type Sequence, sequenceOf } from "./sequence.ts";

/** A request under way. */
export interface Run {
  readonly request: AnyRequest;
  readonly sequence: Sequence;
  readonly outputTokens: number;
  /**
   * `arriving`: not in the queue yet. `waiting`: holds no blocks. `reading`: its blocks are being filled. `ready`: they are filled, it
   * waits for a place. `running`. `held`: over, its blocks wait for a decode engine. `gone`: nothing is left of it.
   */
  state: "arriving" | "waiting" | "reading" | "ready" | "running" | "held" | "gone";
  /** Tokens whose keys and values are computed. */
  computed: number;
  generated: number;
  /** What `computed` will be when the step under way is over. */
  target: number;
  /** Speculative decoding: the part of a token that was gained and not yet given. */
  credit: number;
  /** Undefined until it is first scheduled. */
  use: CacheUse | undefined;
  readonly submittedAt: number;
  queuedAt: number;
  scheduledAt: number;
  firstAt: number;
  /** Of its newest token. */
  lastAt: number;
  fetchMs: number;
  transferMs: number;
}

export function newRun(request: AnyRequest, now: number): Run {
  return {
    request,
    sequence: sequenceOf(request),
    outputTokens: isKeyed(request) ? request.outputTokens : request.output.length,
    state: "arriving",
    computed: 0,
    generated: 0,
    target: 0,
    credit: 0,
    use: undefined,
    submittedAt: now,
    queuedAt: now,
    scheduledAt: Number.NaN,
    firstAt: Number.NaN,
    lastAt: Number.NaN,
    fetchMs: 0,
    transferMs: 0,
  };
}

/** Does its next step only add to the answer? */
export function decodes(run: Run): boolean {
  return run.generated > 0 && run.sequence.length - run.computed === 1;
}

/** Where the time to its first token went; all of it is accounted for. */
export function timingOf(run: Run): Timing {
  const { submittedAt, firstAt, fetchMs, transferMs } = run;
  const overheadMs = run.queuedAt - submittedAt;
  const queueMs = run.scheduledAt - run.queuedAt;
  const prefillMs = firstAt - run.scheduledAt - fetchMs - transferMs;
  return { submittedAt, firstAt, overheadMs, queueMs, fetchMs, transferMs, prefillMs };
}
