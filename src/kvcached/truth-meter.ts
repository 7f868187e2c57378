import type { KvAlarmCode, KvTruthWindow } from "../core/kv-status.ts";
import { countTruth, countVerdict, NO_HISTORY, TRUTH_WINDOWS_S, type TruthHistory, truthOver } from "./truth-window.ts";

/** What is to be seen of a source besides its requests. Counts are since the worker was registered. */
export interface TruthFacts {
  readonly type: "events" | "history";
  /** The endpoint of its publisher, for people. */
  readonly endpoint: string;
  /** KV events taken in. */
  readonly events: number;
  /** Stretches of messages that were lost for good. */
  readonly lostStretches: number;
  /** Blocks that hang on ones of which nothing was heard. */
  readonly orphanedBlocks: number;
  readonly announcedBlockTokens: number | undefined;
  readonly seenBlockTokens: number | undefined;
  /** Why the engine's tokens cannot be those of our prompts; "" when nothing speaks against it. */
  readonly mismatch: string;
  /** Tokens looked for behind the GPU memory, and found; undefined where the engine does not tell. */
  readonly offload: { readonly queriedTokens: number; readonly hitTokens: number } | undefined;
}

/** The state of one worker's truth meter; a plain value. Milliseconds are the owner's monotonic clock. */
export interface TruthState {
  readonly history: TruthHistory;
  /** Requests that came back, with or without a figure, and when the first did. */
  readonly requests: number;
  readonly firstAt: number | undefined;
  /** Lost stretches at the last look, and when they last grew. */
  readonly lost: number;
  readonly lostAt: number | undefined;
  readonly alarms: Readonly<Partial<Record<KvAlarmCode, RaisedAlarm>>>;
}

export interface RaisedAlarm {
  readonly message: string;
  readonly since: number;
}

/** What a look changed: said once each in the log. */
export interface AlarmChange {
  readonly code: KvAlarmCode;
  readonly raised: boolean;
  readonly message: string;
}

export const NEW_TRUTH: TruthState = {
  history: NO_HISTORY,
  requests: 0,
  firstAt: undefined,
  lost: 0,
  lostAt: undefined,
  alarms: {},
};

/** A publisher must have spoken after so many requests and so long. */
const SPOKEN_REQUESTS = 5;
const SPOKEN_MS = 30_000;
/** What alarms are judged by. */
const JUDGED_S = TRUTH_WINDOWS_S[1];
/** Fewer requests or tokens than these in that time say nothing. */
const MIN_REQUESTS = 20;
const MIN_TOKENS = 2_000;
/** A loss is over when nothing was lost for so long. */
const LOST_MS = JUDGED_S * 1000;
/** So many tokens looked for in an offload tier without one hit. */
const OFFLOAD_TOKENS = 500_000;

/** A request came back. `reported` is undefined where the engine gave no figure, or was told not to look in its cache. */
export function observeTruth(
  state: TruthState,
  predicted: number,
  reported: number | undefined,
  now: number,
): TruthState {
  const history = reported === undefined ? state.history : countTruth(state.history, predicted, reported, now);
  return { ...state, history, requests: state.requests + 1, firstAt: state.firstAt ?? now };
}

/** A wrong prediction was explained by an event that came late, or by nothing. */
export function judgedTruth(state: TruthState, result: "in_flight" | "unexplained", now: number): TruthState {
  return { ...state, history: countVerdict(state.history, result, now) };
}

/** Look at what is known: which alarms stand now, and which came or went. */
export function judgeTruth(
  state: TruthState,
  facts: TruthFacts,
  now: number,
): readonly [TruthState, readonly AlarmChange[]] {
  const grew = facts.lostStretches > state.lost;
  const seen: TruthState = { ...state, lost: facts.lostStretches, lostAt: grew ? now : state.lostAt };
  const alarms: Partial<Record<KvAlarmCode, RaisedAlarm>> = {};
  const changes: AlarmChange[] = [];
  for (const [code, rule] of Object.entries(RULES) as [KvAlarmCode, Rule][]) {
    const before = state.alarms[code];
    const message = rule(seen, facts, now, before !== undefined);
    if (message !== undefined) alarms[code] = { message, since: before?.since ?? now };
    if ((message === undefined) !== (before === undefined)) {
      changes.push({ code, raised: message !== undefined, message: message ?? before?.message ?? "" });
    }
  }
  return [{ ...seen, alarms }, changes];
}

/** The stretches that status pages show. */
export function truthWindows(state: TruthState, now: number): readonly KvTruthWindow[] {
  return TRUTH_WINDOWS_S.map((seconds) => truthOver(state.history, seconds, now));
}

/**
 * What is wrong and what would help, or undefined. `stands`: the alarm is raised already, so it goes only when things are
 * clearly better.
 */
type Rule = (state: TruthState, facts: TruthFacts, now: number, stands: boolean) => string | undefined;

const RULES: Readonly<Record<KvAlarmCode, Rule>> = {
  PUBLISHER_MISSING: ({ requests, firstAt }, { type, events, endpoint }, now) => {
    if (type !== "events" || events > 0 || requests < SPOKEN_REQUESTS || now - (firstAt ?? now) < SPOKEN_MS) return;
    const remedy =
      "Start it with its KV event publisher on (cgn render shows the arguments), and see that nothing is between it and kvcached";
    return `it answered ${requests} requests and published nothing at ${endpoint}. ${remedy}`;
  },

  BLOCK_SIZE_WRONG: (_, { announcedBlockTokens: announced, seenBlockTokens: seen }) => {
    if (announced === undefined || seen === undefined || announced === seen) return;
    return `its blocks hold ${seen} tokens, but ${announced} were announced; ${seen} is used. Set the block size that it was started with`;
  },

  TOKENIZER_MISMATCH(state, { mismatch, type, events, orphanedBlocks }, now, stands) {
    if (mismatch !== "") return `${mismatch}. Name the tokenizer and chat template that it was started with`;
    const { requests, predictedTokens, reportedTokens } = truthOver(state.history, JUDGED_S, now);
    if (type !== "events" || events === 0 || !telling(requests, reportedTokens)) return;
    if (predictedTokens >= reportedTokens * (stands ? 0.5 : 0.1)) return;
    // Then nothing could be seen, however prompts are rendered.
    if (orphanedBlocks > 0) return;
    return `it found ${reportedTokens} cached tokens in ${requests} requests, of which its events let us see ${predictedTokens}: prompts are rendered otherwise than there. Name the tokenizer and chat template that it was started with`;
  },

  EVENTS_LOST(state, { type, orphanedBlocks }, now, stands) {
    if (type !== "events") return;
    if (state.lostAt !== undefined && now - state.lostAt < LOST_MS) {
      return `its event messages were lost for good ${state.lost === 1 ? "once" : `${state.lost} times`}. Give it a replay endpoint with a longer buffer, and see that kvcached keeps up`;
    }
    const { requests, predictedTokens, reportedTokens } = truthOver(state.history, JUDGED_S, now);
    if (
      orphanedBlocks > 0 &&
      telling(requests, reportedTokens) &&
      predictedTokens < reportedTokens * (stands ? 0.5 : 0.1)
    ) {
      const remedy =
        "Give it a replay endpoint (replay_endpoint of vLLM's and SGLang's --kv-events-config), or restart it";
      return `it found ${reportedTokens} cached tokens in ${requests} requests, of which its events let us see ${predictedTokens}: ${orphanedBlocks} blocks follow ones that it stored before it was listened to. ${remedy}`;
    }
    if (!telling(requests, predictedTokens) || reportedTokens >= predictedTokens * (stands ? 0.8 : 0.5)) return;
    return `of ${predictedTokens} predicted tokens it had ${reportedTokens} in ${requests} requests: it removed blocks that its events did not tell. Look for gaps in cgn kv sources, and for a proxy that drops messages`;
  },

  OFFLOAD_NEVER_HITS(_, { offload }) {
    if (offload === undefined || offload.hitTokens > 0 || offload.queriedTokens < OFFLOAD_TOKENS) return;
    return `it looked for ${offload.queriedTokens} tokens in its offload tier and found none. Look in its log for a tier that is degraded or cannot be reached, or set kv_offload = "none"`;
  },
};

const telling = (requests: number, tokens: number): boolean => requests >= MIN_REQUESTS && tokens >= MIN_TOKENS;
