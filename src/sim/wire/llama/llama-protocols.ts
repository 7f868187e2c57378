import type { AnswerShapes, Choice, Frame, Generation, Told } from "../answer-shapes.ts";
import { timings } from "./llama-answer.ts";

const first = (g: Generation): Choice => g.choices[0]!;

const named = (event: string, data: object): Frame => ({ event, data: { type: event, ...data } });

const stopReason = ({ finish }: Choice): string => (finish === "length" ? "max_tokens" : "end_turn");

function anthropicUsage(g: Generation, told: Told, output: number): object {
  const cached = told.use.cachedTokens;
  return { cache_read_input_tokens: cached, input_tokens: first(g).prompt.length - cached, output_tokens: output };
}

/** `/v1/messages`: the Anthropic API. `input_tokens` leaves out what was cached. */
export const llamaMessages: AnswerShapes = {
  whole(g, told) {
    const choice = first(g);
    return {
      id: g.id,
      type: "message",
      role: "assistant",
      content: [{ type: "text", text: choice.text }],
      model: g.model,
      stop_reason: stopReason(choice),
      stop_sequence: choice.stopReason,
      usage: anthropicUsage(g, told, choice.text.length),
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
        stop_reason: null,
        stop_sequence: null,
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
      delta: { stop_reason: stopReason(choice), stop_sequence: choice.stopReason },
      usage: { output_tokens: choice.text.length },
    }),
    named("message_stop", {}),
  ],
  end: () => [],
};

const part = (text: string): object => ({ type: "output_text", annotations: [], logprobs: [], text });

/** The id of the one item of a response. */
const itemId = (g: Generation): string => g.id.replace(/^resp_/, "msg_");

function item(g: Generation, text: string): object {
  return { type: "message", status: "completed", id: itemId(g), content: [part(text)], role: "assistant" };
}

function responseUsage(choice: Choice, told: Told): object {
  const input = choice.prompt.length;
  const output = choice.text.length;
  return {
    input_tokens: input,
    output_tokens: output,
    total_tokens: input + output,
    input_tokens_details: { cached_tokens: told.use.cachedTokens },
  };
}

/** `/v1/responses` */
export const llamaResponses: AnswerShapes = {
  whole(g, told) {
    const choice = first(g);
    return {
      completed_at: Math.floor(told.now / 1000),
      created_at: g.created,
      id: g.id,
      model: g.model,
      object: "response",
      output: [item(g, choice.text)],
      status: "completed",
      usage: responseUsage(choice, told),
    };
  },
  first(g) {
    const response = { id: g.id, object: "response", status: "in_progress" };
    const fresh = { content: [], id: itemId(g), role: "assistant", status: "in_progress", type: "message" };
    return [
      named("response.created", { response }),
      named("response.in_progress", { response }),
      named("response.output_item.added", { item: fresh }),
      named("response.content_part.added", { item_id: itemId(g), part: { type: "output_text", text: "" } }),
    ];
  },
  token: (g, choice, at) => [named("response.output_text.delta", { item_id: itemId(g), delta: choice.text[at] })],
  last(g, choice, told) {
    const id = itemId(g);
    const response = {
      id: g.id,
      object: "response",
      created_at: g.created,
      status: "completed",
      model: g.model,
      output: [item(g, choice.text)],
      usage: responseUsage(choice, told),
    };
    return [
      named("response.output_text.done", { item_id: id, text: choice.text }),
      named("response.content_part.done", { item_id: id, part: part(choice.text) }),
      named("response.output_item.done", { item: item(g, choice.text) }),
      named("response.completed", { response, timings: timings(choice, told) }),
    ];
  },
  end: () => [],
};
