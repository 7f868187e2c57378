import type { AnswerShapes, Choice, Frame, Generation, Told } from "./answer-shapes.ts";

/** vLLM 0.32.0's answers by other APIs than OpenAI's chats and completions. */

const first = (g: Generation): Choice => g.choices[0]!;
const named = (event: string, data: object): Frame => ({ event, data });

function anthropicStop({ finish, stopReason }: Choice): object {
  if (stopReason !== null) return { stop_reason: "stop_sequence", stop_sequence: stopReason };
  return { stop_reason: finish === "length" ? "max_tokens" : "end_turn" };
}

function anthropicUsage(g: Generation, { use }: Told): object {
  return {
    input_tokens: g.prompt.length,
    output_tokens: first(g).text.length,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: use.cachedTokens,
  };
}

/** `/v1/messages` */
export const vllmMessages: AnswerShapes = {
  whole(g, told) {
    return {
      id: g.id,
      type: "message",
      role: "assistant",
      content: [{ type: "text", text: first(g).text }],
      model: g.model,
      ...anthropicStop(first(g)),
      usage: anthropicUsage(g, told),
    };
  },
  first(g) {
    const message = {
      id: g.id,
      type: "message",
      role: "assistant",
      content: [],
      model: g.model,
      stop_reason: null,
      stop_sequence: null,
      usage: { input_tokens: g.prompt.length, output_tokens: 0 },
    };
    return [
      named("message_start", { type: "message_start", message }),
      named("content_block_start", {
        type: "content_block_start",
        content_block: { type: "text", text: "" },
        index: 0,
      }),
    ];
  },
  token: (_, choice, at) => [
    named("content_block_delta", {
      type: "content_block_delta",
      delta: { type: "text_delta", text: choice.text[at] },
      index: 0,
    }),
  ],
  last: (g, choice, told) => [
    named("content_block_stop", { type: "content_block_stop", index: 0 }),
    named("message_delta", {
      type: "message_delta",
      delta: { stop_sequence: null, ...anthropicStop(choice) },
      usage: anthropicUsage(g, told),
    }),
    named("message_stop", { type: "message_stop" }),
  ],
  end: () => [],
};

const itemId = (g: Generation): string => g.id.replace(/^resp_/, "msg_");

function response(g: Generation, status: string, output: readonly object[], usage: object | null): object {
  const { body } = g;
  const cut = status === "incomplete" ? { reason: "max_output_tokens" } : null;
  return {
    id: g.id,
    created_at: g.created,
    incomplete_details: cut,
    instructions: body["instructions"] ?? null,
    metadata: null,
    model: g.model,
    object: "response",
    output,
    parallel_tool_calls: true,
    temperature: body["temperature"] ?? 1,
    tool_choice: "none",
    tools: [],
    top_p: body["top_p"] ?? 1,
    background: false,
    max_output_tokens: body["max_output_tokens"] ?? null,
    max_tool_calls: null,
    previous_response_id: null,
    prompt: null,
    reasoning: null,
    service_tier: "auto",
    status,
    text: null,
    top_logprobs: null,
    truncation: "disabled",
    usage,
    user: null,
    presence_penalty: 0,
    frequency_penalty: 0,
    kv_transfer_params: null,
    ec_transfer_params: null,
    input_messages: null,
    output_messages: null,
  };
}

function item(g: Generation, text: string, status: string): object {
  const content = [{ annotations: [], text, type: "output_text", logprobs: null }];
  return { id: itemId(g), content, role: "assistant", status, type: "message", phase: null };
}

function responseUsage(g: Generation, { use }: Told): object {
  const input = g.prompt.length;
  const output = first(g).text.length;
  return {
    input_tokens: input,
    input_tokens_details: {
      cached_tokens: use.cachedTokens,
      cache_write_tokens: use.createdCacheTokens,
      input_tokens_per_turn: [],
      cached_tokens_per_turn: [],
    },
    output_tokens: output,
    output_tokens_details: {
      reasoning_tokens: 0,
      tool_output_tokens: 0,
      output_tokens_per_turn: [],
      tool_output_tokens_per_turn: [],
    },
    total_tokens: input + output,
  };
}

const statusOf = ({ finish }: Choice): string => (finish === "length" ? "incomplete" : "completed");

/** `/v1/responses`; events are numbered. */
export const vllmResponses: AnswerShapes = {
  whole: (g, told) => response(g, statusOf(first(g)), [item(g, first(g).text, "completed")], responseUsage(g, told)),
  first(g) {
    const begun = response(g, "in_progress", [], null);
    const fresh = {
      id: itemId(g),
      content: [],
      role: "assistant",
      status: "in_progress",
      type: "message",
      phase: null,
    };
    const part = { annotations: [], text: "", type: "output_text", logprobs: [] };
    return [
      numbered(0, "response.created", { response: begun }),
      numbered(1, "response.in_progress", { response: begun }),
      numbered(2, "response.output_item.added", { item: fresh, output_index: 0 }),
      numbered(3, "response.content_part.added", { content_index: 0, item_id: itemId(g), output_index: 0, part }),
    ];
  },
  token: (g, choice, at) => [
    numbered(4 + at, "response.output_text.delta", {
      content_index: 0,
      delta: choice.text[at],
      item_id: itemId(g),
      logprobs: [],
      output_index: 0,
    }),
  ],
  last(g, choice, told) {
    const at = 4 + choice.text.length;
    const place = { content_index: 0, item_id: itemId(g), output_index: 0 };
    const part = { annotations: [], text: choice.text, type: "output_text", logprobs: null };
    const done = item(g, choice.text, "completed");
    const whole = response(g, statusOf(choice), [done], responseUsage(g, told));
    return [
      numbered(at, "response.output_text.done", { ...place, logprobs: [], text: choice.text }),
      numbered(at + 1, "response.content_part.done", { ...place, part }),
      numbered(at + 2, "response.output_item.done", { item: done, output_index: 0 }),
      numbered(at + 3, "response.completed", { response: whole }),
    ];
  },
  end: () => [],
};

function numbered(sequence_number: number, type: string, data: object): Frame {
  return named(type, { ...data, sequence_number, type });
}
