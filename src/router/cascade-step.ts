import type { WorkerInfo } from "../core/worker.ts";
import type { BodyEdits } from "../engines/disaggregation.ts";
import { findEngine } from "../engines/registry.ts";
import type { ClientResponse } from "../http/client-response.ts";
import {
  type Judged,
  type JudgeInput,
  judge,
  judgeEnd,
  meanOf,
  newJudged,
  tokensOf,
  type Verdict,
} from "../routing/cascade-judge.ts";
import { AnswerTap } from "./answer-tap.ts";
import { asksLogprobs, foldsStep, whyBlind } from "./cascade-ask.ts";
import type { CascadeRecord, DecisionRecord, Writable } from "./decisions.ts";
import { HeldResponse } from "./held-response.ts";
import type { ReadRequest } from "./read.ts";
import type { LegRun } from "./settle.ts";

/** How a leg is asked so that its answer can be judged. */
export interface StepAsk {
  readonly edits: BodyEdits;
  /** Ask for a stream although the client wants a whole answer, so that a bad one can be cut early; or never do so. */
  readonly fold?: boolean;
}

/** By what a step's answer is judged. */
export interface StepRule {
  readonly threshold: number;
  readonly tokens: number;
  readonly unjudged: "next" | "keep";
}

/** What a step needs of the request that it belongs to. */
export interface StepControl {
  /** End the leg under way. */
  cut(): void;
  /** The client is gone. */
  left(): boolean;
  /** Milliseconds. */
  now(): number;
}

/** Which of a chain's models answered, from 1. */
export const STEP_HEADER = "x-cgn-cascade-step";

/** More of an answer than this is not held back: what is there decides. */
const HELD_BYTES = 4 * 1024 * 1024;

/**
 * One model's turn in a cascade: asks for log probabilities, judges the tokens as they come, and holds the answer back until it is known
 * whether the client gets it. A step without a rule (the last one) does none of this.
 */
export class CascadeStep {
  readonly record: Writable<CascadeRecord>;
  readonly held: HeldResponse | undefined;
  readonly #rule: StepRule | undefined;
  readonly #control: StepControl;
  #judged: Judged;
  #decision: DecisionRecord | undefined;
  #strip: "null" | "absent" | undefined;
  #releasedMs: number | undefined;

  /** @param real the client's response */
  constructor(
    record: Writable<CascadeRecord>,
    rule: StepRule | undefined,
    request: ReadRequest,
    real: ClientResponse,
    control: StepControl,
  ) {
    this.record = record;
    this.#rule = rule;
    this.#control = control;
    this.held = rule === undefined ? undefined : new HeldResponse(real);
    this.#judged = newJudged(judgeRule(rule, request));
  }

  /** When the client's first byte was let go; undefined: it was not held, or is still. */
  get releasedMs(): number | undefined {
    return this.#releasedMs;
  }

  /** What comes of it is what comes of the client's request. */
  get counts(): boolean {
    return this.held === undefined || this.held.state === "released" || this.#control.left();
  }

  /** Write down that this is the step's decision. */
  begin(decision: DecisionRecord): void {
    this.#decision = decision;
    decision.cascade = this.record;
  }

  /** How the step went, for those after it. */
  past(): CascadeRecord {
    const { earlier: _earlier, ...own } = this.record;
    if (this.#decision === undefined) return own;
    const { cascade: _self, ...decision } = this.#decision;
    return { ...own, decision };
  }

  /** What this worker's leg is asked besides; undefined: nothing. */
  ask(worker: WorkerInfo, leg: ReadRequest): StepAsk | undefined {
    this.#strip = undefined;
    const api = leg.kind === "completion" ? "completion" : "chat";
    const engine = findEngine(worker.kind).tokenLogprobs;
    if (this.held === undefined || engine === undefined || whyBlind(worker, leg) !== undefined) return undefined;
    const fold = foldsStep(worker, leg);
    const wish = fold === undefined ? {} : { fold };
    if (asksLogprobs(leg)) return { edits: {}, ...wish };
    this.#strip = engine.unasked[api];
    return { edits: engine[api], ...wish };
  }

  /** Stand between an engine and the relay of its answer. */
  tap<T extends ConstructorParameters<typeof AnswerTap>[0]>(relay: T): T | AnswerTap {
    const { held } = this;
    if (held === undefined) return relay;
    // Another worker begins anew, unless it goes on with what there is of a stream.
    if (held.status === undefined && this.#judged.verdict === undefined) this.#judged = newJudged(this.#judged.rule);
    return new AnswerTap(relay, this.#strip, this);
  }

  /** Of an answer's choices. */
  feed(inputs: readonly JudgeInput[]): void {
    for (const input of inputs) this.#judged = judge(this.#judged, input);
  }

  /** The answer is whole. */
  ended(): void {
    this.#judged = judgeEnd(this.#judged);
  }

  /** Carry out the verdict, once there is one. */
  decide(): void {
    const { held } = this;
    if (held?.state !== "holding") return;
    if (held.bytes > HELD_BYTES) this.ended();
    const { verdict, ended } = this.#judged;
    if (verdict === undefined) return;
    this.#note(verdict);
    if (verdict === "sure" || (verdict === "blind" && this.#rule?.unjudged === "keep")) {
      this.#releasedMs = this.#control.now();
      if (!held.isOpen) held.setHeader(STEP_HEADER, String(this.record.step));
      held.release();
      return;
    }
    held.drop();
    // The end of an answer that is there anyway tells what it used.
    if (ended.includes(false)) this.#control.cut();
  }

  /** It did not come to an answer that can be judged. */
  fail(why: string): void {
    this.held?.drop();
    this.record.result = "failed";
    this.record.why = why;
  }

  /**
   * A leg is over.
   * @returns true: its answer goes to nobody. What it used is then known from its tokens, where it was cut before it told
   */
  escalated({ choice, facts }: LegRun): boolean {
    if (this.held?.state !== "dropped" || this.#control.left()) return false;
    facts.promptTokens ??= choice.promptTokens;
    facts.completionTokens ??= tokensOf(this.#judged);
    return true;
  }

  #note(verdict: Verdict): void {
    const mean = meanOf(this.#judged);
    const kept = verdict === "sure" || (verdict === "blind" && this.#rule?.unjudged === "keep");
    this.record.result = kept ? "kept" : "escalated";
    this.record.tokens = tokensOf(this.#judged);
    if (mean !== undefined) this.record.mean = Math.round(mean * 1_000) / 1_000;
    if (verdict === "blind") this.record.why = "its answer has no log probabilities";
  }
}

function judgeRule(rule: StepRule | undefined, { json }: ReadRequest): Judged["rule"] {
  const { n, max_tokens: max, max_completion_tokens: most = max } = json ?? {};
  return {
    threshold: rule?.threshold ?? 0,
    tokens: rule?.tokens ?? 0,
    choices: typeof n === "number" && Number.isInteger(n) && n > 1 ? n : 1,
    ...(typeof most === "number" && Number.isInteger(most) && most > 0 ? { most } : {}),
  };
}
