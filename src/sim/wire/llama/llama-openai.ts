import { type AnswerShapes, type Choice, DONE, type Frame, type Generation, type Told } from "../answer-shapes.ts";
import { FINGERPRINT, logprobs, nativeAnswer, timings, usage } from "./llama-answer.ts";

const first = (g: Generation): Choice => g.choices[0]!;

function head(g: Generation, object: string): object {
  return { created: g.created, model: g.model, system_fingerprint: FINGERPRINT, object };
}

const wantsTimings = (g: Generation): boolean => g.body["timings_per_token"] === true;

function chunk(g: Generation, choice: Choice, finish: string | null, delta: object, more: object = {}): Frame {
  const found = "content" in delta ? more : {};
  const one = {
    finish_reason: finish,
    index: choice.index,
    delta,
    ...(finish === null ? pick(found, "logprobs") : {}),
  };
  const { logprobs: _, ...rest } = more as Record<string, unknown>;
  return { data: { choices: [one], ...head(g, "chat.completion.chunk"), id: g.id, ...rest } };
}

/** What stands before a stop text leaves with the answer's end, and has its figures. */
const meetsStop = ({ stopReason, text }: Choice, at: number): boolean => stopReason !== null && at === text.length - 1;

const pick = (from: object, key: string): object =>
  key in from ? { [key]: (from as Record<string, unknown>)[key] } : {};

/** `return_progress`: before the first token, what was there and what was computed. */
function progress(g: Generation, choice: Choice, told: Told): readonly Frame[] {
  if (g.body["return_progress"] !== true) return [];
  const total = choice.prompt.length;
  const cache = told.use.cachedTokens;
  const at = (processed: number, ms: number): Frame => {
    const before: Told = { ...told, generated: [], promptMs: ms, predictedMs: 0 };
    const figures = wantsTimings(g) ? { timings: timings(choice, before) } : {};
    const prompt_progress = { total, cache, processed, time_ms: Math.round(ms) };
    return chunk(g, choice, null, { role: "assistant", content: null }, { ...figures, prompt_progress });
  };
  return [at(cache, 0), at(total, told.promptMs)];
}

/** `/v1/chat/completions` */
export const llamaChat: AnswerShapes = {
  whole(g, told) {
    const choices = g.choices.map((choice) => {
      const content = logprobs(g, choice);
      return {
        finish_reason: choice.finish,
        index: choice.index,
        message: { role: "assistant", content: choice.text },
        ...(content === undefined ? {} : { logprobs: { content } }),
      };
    });
    return {
      choices,
      ...head(g, "chat.completion"),
      usage: usage(first(g), told),
      id: g.id,
      ...(g.body["verbose"] === true ? { __verbose: nativeAnswer(g, first(g), told) } : {}),
      timings: timings(first(g), told),
    };
  },
  first: (g, choice, told) => [
    ...progress(g, choice, told),
    chunk(g, choice, null, { role: "assistant", content: null }),
  ],
  token(g, choice, at, told) {
    const content = logprobs(g, choice, at, at + 1);
    const more = {
      ...(content === undefined ? {} : { logprobs: { content } }),
      ...(wantsTimings(g) || meetsStop(choice, at) ? { timings: timings(choice, told) } : {}),
    };
    return [chunk(g, choice, null, { content: choice.text[at] }, more)];
  },
  last(g, choice, told) {
    const figures = { timings: timings(choice, told) };
    const end = chunk(g, choice, choice.finish, {}, g.includeUsage ? {} : figures);
    if (!g.includeUsage) return [end];
    const data = {
      choices: [],
      created: g.created,
      id: g.id,
      model: g.model,
      system_fingerprint: FINGERPRINT,
      object: "chat.completion.chunk",
      usage: usage(choice, told),
      ...figures,
    };
    return [end, { data }];
  },
  end: () => [DONE],
};

function completionChunk(
  g: Generation,
  choice: Choice,
  text: string,
  finish: string | null,
  more: object,
  at?: number,
): Frame {
  const content = at === undefined ? undefined : logprobs(g, choice, at, at + 1);
  const one = {
    text,
    index: choice.index,
    logprobs: content === undefined ? null : { content },
    finish_reason: finish,
  };
  return { data: { choices: [one], ...head(g, "text_completion"), id: g.id, ...more } };
}

/** `/v1/completions` */
export const llamaCompletion: AnswerShapes = {
  whole(g, told) {
    const choices = g.choices.map((choice) => {
      const content = logprobs(g, choice);
      return {
        text: choice.text,
        index: choice.index,
        logprobs: content === undefined ? null : { content },
        finish_reason: choice.finish,
      };
    });
    const [one] = g.choices;
    return {
      choices,
      ...head(g, "text_completion"),
      usage: usage(one!, told),
      id: g.id,
      timings: timings(one!, told),
    };
  },
  // Seen in the recorded streams of several answers: an event without data is sent as null.
  first: (g, choice) => (choice.index === 0 && isBatch(g) ? [{ data: "null" }] : []),
  token(g, choice, at, told) {
    const more = meetsStop(choice, at) ? { timings: timings(choice, told) } : {};
    return [completionChunk(g, choice, choice.text[at]!, null, more, at)];
  },
  last: (g, choice, told) => [
    completionChunk(g, choice, "", choice.finish, { usage: usage(choice, told), timings: timings(choice, told) }),
  ],
  end: () => [DONE],
};

/** Several prompts in one request. */
const isBatch = ({ body: { prompt } }: Generation): boolean =>
  Array.isArray(prompt) && prompt.length > 1 && prompt.every((one) => typeof one !== "number");

/** `/completion` and `/completions`: llama-server's own form. */
export const llamaNative: AnswerShapes = {
  whole(g, told) {
    const all = g.choices.map((choice) => {
      const content = logprobs(g, choice);
      const answer = nativeAnswer(g, choice, told);
      return wanted(g, content === undefined ? answer : { ...answer, completion_probabilities: content });
    });
    return all.length === 1 ? all[0]! : all;
  },
  first: () => [],
  token(g, choice, at, told) {
    const text = choice.text[at]!;
    const content = logprobs(g, choice, at, at + 1);
    return [
      {
        data: {
          index: choice.index,
          content: text,
          tokens: [text.charCodeAt(0)],
          stop: false,
          id_slot: -1,
          tokens_predicted: at + 1,
          tokens_evaluated: choice.prompt.length,
          ...(wantsTimings(g) ? { timings: timings(choice, told) } : {}),
          ...(content === undefined ? {} : { completion_probabilities: content }),
        },
      },
    ];
  },
  last: (g, choice, told) => [{ data: nativeAnswer(g, choice, told, "") }],
  end: () => [],
};

/** `response_fields`: only these, by their path; a path stays the key. */
function wanted(g: Generation, answer: object): object {
  const { response_fields: fields } = g.body;
  if (!Array.isArray(fields)) return answer;
  const found: Record<string, unknown> = {};
  for (const path of fields.map(String)) {
    let value: unknown = answer;
    for (const key of path.split("/")) value = (value as Record<string, unknown> | undefined)?.[key];
    if (value !== undefined) found[path] = value;
  }
  return found;
}
