import { z } from "zod";
import { about, duration, flag, optionalDuration } from "./schema-fields.ts";
import type { AnswerSettings, ModelAnswers } from "./settings.ts";

/** How long an answer may take, where nothing else is written. `0s`: for ever. */
export const DEFAULT_ANSWERS: AnswerSettings = {
  firstTokenMs: 600_000,
  answerMs: 600_000,
  stallMs: 300_000,
  continueStreams: false,
};

const FIRST = "Longest wait for a stream's first token; then another worker is asked, or 504. `0s`: for ever";
const WHOLE = "Longest wait for an answer that is not streamed; then another worker is asked, or 504. `0s`: for ever";
const STALL =
  "Longest silence of a stream after its first token, comments not counted; then it is cut like one whose engine died. `0s`: for ever";
const CONTINUE =
  "A stream whose engine dies is continued on another worker, where the request allows it, by sending what was generated so far";

/** Keys of `[router]`. */
export const answerKeys = {
  first_token_timeout: duration(FIRST, DEFAULT_ANSWERS.firstTokenMs),
  answer_timeout: duration(WHOLE, DEFAULT_ANSWERS.answerMs),
  stall_timeout: duration(STALL, DEFAULT_ANSWERS.stallMs),
  continue_streams: flag(CONTINUE, DEFAULT_ANSWERS.continueStreams),
};

const ofRouter = (key: string) => ({ defaultText: `\`[router].${key}\`` });

/** The same for one model. */
export const modelAnswerKeys = {
  first_token_timeout: optionalDuration(FIRST, ofRouter("first_token_timeout")),
  answer_timeout: optionalDuration(WHOLE, ofRouter("answer_timeout")),
  stall_timeout: optionalDuration(STALL, ofRouter("stall_timeout")),
  continue_streams: about(z.boolean().optional(), CONTINUE, ofRouter("continue_streams")),
};

type Written = { readonly [K in keyof typeof answerKeys]: z.output<(typeof answerKeys)[K]> };
type WrittenOfModel = { readonly [K in keyof typeof modelAnswerKeys]?: z.output<(typeof modelAnswerKeys)[K]> };

/** `[router]`'s rules, and those of each model that has any of its own. */
export function answerSettings(
  router: Written,
  models: readonly { readonly name: string; readonly answers?: ModelAnswers }[],
): { readonly answers: AnswerSettings; readonly modelAnswers: Readonly<Record<string, AnswerSettings>> } {
  const answers = {
    firstTokenMs: router.first_token_timeout,
    answerMs: router.answer_timeout,
    stallMs: router.stall_timeout,
    continueStreams: router.continue_streams,
  };
  const own = models.filter((model) => model.answers !== undefined);
  return {
    answers,
    modelAnswers: Object.fromEntries(own.map((model) => [model.name, { ...answers, ...model.answers }])),
  };
}

/** What a model's table says of it; undefined: nothing. */
export function modelAnswers(written: WrittenOfModel): ModelAnswers | undefined {
  const { first_token_timeout: first, answer_timeout: whole, stall_timeout: stall, continue_streams: goOn } = written;
  const answers = {
    ...(first === undefined ? {} : { firstTokenMs: first }),
    ...(whole === undefined ? {} : { answerMs: whole }),
    ...(stall === undefined ? {} : { stallMs: stall }),
    ...(goOn === undefined ? {} : { continueStreams: goOn }),
  };
  return Object.keys(answers).length === 0 ? undefined : answers;
}
