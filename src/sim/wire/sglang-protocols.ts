import type { AnswerShapes, Choice, Frame, Generation, Told } from "./answer-shapes.ts";
import { madeUp } from "./logprobs.ts";

/** SGLang 0.5.23's answers by its own API and by others than OpenAI's chats and completions. */

const first = (g: Generation): Choice => g.choices[0]!;
const named = (event: string, data: object): Frame => ({ event, data: { type: event, ...data } });

const stopReason = ({ finish, stopReason: text }: Choice): string =>
  finish === "length" ? "max_tokens" : text === null ? "end_turn" : "stop_sequence";

/** Cached tokens are told apart from the rest, where there are any and the engine reports them. */
function anthropicUsage(g: Generation, { use }: Told, output: number): object {
  const cached = g.reportsCachedTokens ? use.cachedTokens : 0;
  return {
    input_tokens: g.prompt.length - cached,
    output_tokens: output,
    ...(cached > 0 ? { cache_read_input_tokens: cached } : {}),
  };
}

/** `/v1/messages` */
export const sglangMessages: AnswerShapes = {
  whole(g, told) {
    return {
      id: g.id,
      type: "message",
      role: "assistant",
      content: [{ type: "text", text: first(g).text }],
      model: g.model,
      stop_reason: stopReason(first(g)),
      usage: anthropicUsage(g, told, first(g).text.length),
    };
  },
  first: (g, _, told) => [
    named("message_start", {
      message: {
        id: g.id,
        type: "message",
        role: "assistant",
        content: [],
        model: g.model,
        usage: anthropicUsage(g, told, 0),
      },
    }),
    named("content_block_start", { index: 0, content_block: { type: "text", text: "" } }),
  ],
  token: (_, choice, at) => [
    named("content_block_delta", { index: 0, delta: { type: "text_delta", text: choice.text[at] } }),
  ],
  last: (_, choice) => [
    named("content_block_stop", { index: 0 }),
    named("message_delta", {
      delta: { stop_reason: stopReason(choice) },
      usage: { output_tokens: choice.text.length },
    }),
    named("message_stop", {}),
  ],
  end: () => [],
};

const itemId = (g: Generation): string => g.id.replace(/^resp_/, "msg_");

function item(g: Generation, status: string, text: string | undefined): object {
  const content = text === undefined ? [] : [{ annotations: [], text, type: "output_text", logprobs: null }];
  return { id: itemId(g), content, role: "assistant", status, type: "message", phase: "final_answer" };
}

function response(g: Generation, status: string, output: readonly object[], usage: object | null): object {
  return {
    id: g.id,
    object: "response",
    created_at: g.created,
    model: g.model,
    output,
    status,
    usage,
    parallel_tool_calls: true,
    tool_choice: "auto",
    tools: [],
    error: null,
    incomplete_details: status === "incomplete" ? { reason: "max_output_tokens" } : null,
    instructions: g.body["instructions"] ?? null,
    max_output_tokens: g.body["max_output_tokens"] ?? null,
    previous_response_id: null,
    reasoning: { effort: null, summary: null },
    store: true,
    temperature: g.body["temperature"] ?? null,
    text: status === "in_progress" ? null : { format: { type: "text" } },
    top_p: g.body["top_p"] ?? null,
    truncation: "disabled",
    user: null,
    metadata: {},
  };
}

function responseUsage(g: Generation, { use }: Told): object {
  const input = g.prompt.length;
  const output = first(g).text.length;
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: use.cachedTokens, cache_write_tokens: 0 },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: input + output,
  };
}

const statusOf = ({ finish }: Choice): string => (finish === "length" ? "incomplete" : "completed");

/** `/v1/responses` */
export const sglangResponses: AnswerShapes = {
  whole: (g, told) => response(g, statusOf(first(g)), [item(g, "completed", first(g).text)], responseUsage(g, told)),
  first(g) {
    const begun = response(g, "in_progress", [], null);
    const part = { type: "output_text", text: "", annotations: [], logprobs: null };
    return [
      named("response.created", { response: begun, sequence_number: 0 }),
      named("response.in_progress", { response: begun, sequence_number: 1 }),
      named("response.output_item.added", {
        item: item(g, "in_progress", undefined),
        output_index: 0,
        sequence_number: 2,
      }),
      named("response.content_part.added", {
        item_id: itemId(g),
        output_index: 0,
        content_index: 0,
        part,
        sequence_number: 3,
      }),
    ];
  },
  token: (g, choice, at) => [
    named("response.output_text.delta", {
      item_id: itemId(g),
      output_index: 0,
      content_index: 0,
      delta: choice.text[at],
      logprobs: [],
      sequence_number: 4 + at,
    }),
  ],
  last(g, choice, told) {
    const at = 4 + choice.text.length;
    const place = { item_id: itemId(g), output_index: 0, content_index: 0 };
    const part = { type: "output_text", text: choice.text, annotations: [], logprobs: null };
    const done = item(g, "completed", choice.text);
    const whole = response(g, statusOf(choice), [done], responseUsage(g, told));
    return [
      named("response.output_text.done", { ...place, text: choice.text, logprobs: [], sequence_number: at }),
      named("response.content_part.done", { ...place, part, sequence_number: at + 1 }),
      named("response.output_item.done", { item: done, output_index: 0, sequence_number: at + 2 }),
      named(`response.${statusOf(choice)}`, { response: whole, sequence_number: at + 3 }),
    ];
  },
  end: () => [],
};

/** `/generate`: SGLang's own form. A chunk of its stream has the text so far. */
export const sglangGenerate: AnswerShapes = {
  whole(g, told) {
    const all = g.choices.map((choice) => answer(g, choice, told, choice.text.length, true));
    const several = g.choices.length > 1 || Array.isArray(g.body["text"]);
    return several ? all : all[0]!;
  },
  first: () => [],
  token: (g, choice, at, told) => [{ data: answer(g, choice, told, at + 1, at === choice.text.length - 1) }],
  last: () => [],
  end: () => [{ data: "[DONE]" }],
};

function answer(g: Generation, choice: Choice, told: Told, tokens: number, over: boolean): object {
  const text = choice.text.slice(0, tokens);
  const length = { type: "length", length: tokens };
  const reason = choice.finish === "length" ? length : { type: "stop", matched: choice.stopReason ?? 2 };
  const seconds = told.now / 1000;
  return {
    text,
    output_ids: [...Buffer.from(text)],
    meta_info: {
      id: g.id,
      finish_reason: over ? reason : null,
      prompt_tokens: choice.prompt.length,
      weight_version: "default",
      num_retractions: 0,
      storage_prefetch_wait: 0,
      storage_staging_wait: 0,
      ...logprobs(g, choice, tokens),
      ...(over
        ? {
            forward_entry_time: seconds - (told.promptMs + told.predictedMs) / 1000,
            prefill_finished_time: seconds - told.predictedMs / 1000,
            queue_time: 0,
          }
        : {}),
      reasoning_tokens: 0,
      completion_tokens: tokens,
      cached_tokens: told.use.cachedTokens,
      weight_versions: [{ version: "default", start: 0, end: tokens }],
      cached_tokens_details: null,
      dp_rank: null,
      e2e_latency: (told.promptMs + told.predictedMs) / 1000,
      ...(over
        ? {
            request_received_ts: seconds - (told.promptMs + told.predictedMs) / 1000,
            first_token_latency: told.promptMs / 1000,
            api_server_dispatch_finish_ts: seconds - (told.promptMs + told.predictedMs) / 1000,
            request_finished_ts: seconds,
            decode_throughput: told.predictedMs === 0 ? 0 : (1000 * tokens) / told.predictedMs,
            response_sent_to_client_ts: seconds,
          }
        : {}),
    },
  };
}

/** `return_logprob`: triples of log probability, id and text. */
function logprobs(g: Generation, choice: Choice, tokens: number): object {
  if (g.body["return_logprob"] !== true) return {};
  const count = Number(g.body["top_logprobs_num"] ?? 0);
  const triples = Array.from({ length: tokens }, (_, i) => madeUp(choice.text, i, Math.max(1, count)));
  const output = triples.map(({ taken }) => [taken.logprob, taken.id, null]);
  const tops = triples.map(({ top }) => top.map((one) => [one.logprob, one.id, null]));
  return {
    input_token_logprobs: [],
    output_token_logprobs: output,
    ...(count > 0 ? { input_top_logprobs: [], output_top_logprobs: tops } : {}),
  };
}
