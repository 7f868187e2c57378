import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { AskedFor, Conversion, Json } from "./conversion.ts";
import { conversionOf } from "./conversions.ts";
import { responseFromChat } from "./responses-answer.ts";

const ASKED: AskedFor = { id: "req-1", model: "m", json: { temperature: 0.5 } };
const messages = conversionOf("/v1/messages")!;
const responses = conversionOf("/v1/responses")!;

const USAGE = { prompt_tokens: 20, completion_tokens: 7, prompt_tokens_details: { cached_tokens: 16 } };

/** As a client reads it. */
const read = (value: unknown) => JSON.parse(JSON.stringify(value));
type Loose = ReturnType<typeof read>;

interface Said {
  readonly thoughts: string;
  readonly text: string;
  readonly calls: readonly { readonly id: string; readonly name: string; readonly args: string }[];
  readonly finish: string;
}

function whole({ thoughts, text, calls, finish }: Said): Json {
  const message: Json = { role: "assistant", content: text === "" ? null : text };
  if (thoughts !== "") message["reasoning_content"] = thoughts;
  if (calls.length > 0) {
    message["tool_calls"] = calls.map(({ id, name, args }) => ({
      id,
      type: "function",
      function: { name, arguments: args },
    }));
  }
  const choices = [{ index: 0, message, finish_reason: finish }];
  return { id: "chatcmpl-7", object: "chat.completion", created: 9, model: "up", choices, usage: USAGE };
}

/** Cut as engines do: thoughts, text, then each call's head and its arguments in pieces; usage apart, at the end. */
function chunks({ thoughts, text, calls, finish }: Said, size: number): Json[] {
  const deltas: Json[] = [{ role: "assistant", content: "" }];
  for (const piece of cut(thoughts, size)) deltas.push({ reasoning_content: piece });
  for (const piece of cut(text, size)) deltas.push({ content: piece });
  calls.forEach(({ id, name, args }, index) => {
    deltas.push({ tool_calls: [{ index, id, type: "function", function: { name, arguments: "" } }] });
    for (const piece of cut(args, size)) deltas.push({ tool_calls: [{ index, function: { arguments: piece } }] });
  });
  const head = { id: "chatcmpl-7", object: "chat.completion.chunk", created: 9, model: "up" };
  const said = deltas.map((delta) => ({ ...head, choices: [{ index: 0, delta, finish_reason: null }] }));
  const ended = { ...head, choices: [{ index: 0, delta: {}, finish_reason: finish }] };
  return [...said, ended, { ...head, choices: [], usage: USAGE }];
}

function cut(text: string, size: number): string[] {
  const points = [...text];
  return Array.from({ length: Math.ceil(points.length / size) }, (_, i) =>
    points.slice(i * size, (i + 1) * size).join(""),
  );
}

function events(conversion: Conversion, parts: readonly Json[]): { event: string; data: Loose }[] {
  const stream = conversion.stream(ASKED);
  const text = parts.map((part) => stream.chunk(part)).join("") + stream.end();
  return text
    .split("\n\n")
    .filter((one) => one !== "")
    .map((one) => {
      const [name = "", data = ""] = one.split("\n");
      return { event: name.replace("event: ", ""), data: JSON.parse(data.replace("data: ", "")) };
    });
}

/** What Anthropic's SDK does with events. */
function accumulate(all: readonly { data: Loose }[]): Json {
  let message: Loose;
  const args: string[] = [];
  for (const { data } of all) {
    if (data.type === "message_start") message = structuredClone(data.message);
    if (data.type === "content_block_start") message.content[data.index] = structuredClone(data.content_block);
    if (data.type === "message_delta") {
      Object.assign(message, data.delta);
      Object.assign(message.usage, data.usage);
    }
    if (data.type !== "content_block_delta") continue;
    const block = message.content[data.index];
    const { type } = data.delta;
    if (type === "text_delta") block.text += data.delta.text;
    else if (type === "thinking_delta") block.thinking += data.delta.thinking;
    else args[data.index] = (args[data.index] ?? "") + data.delta.partial_json;
  }
  for (const i in args) message.content[i].input = JSON.parse(args[i]!);
  return message;
}

const said = fc.record<Said>({
  thoughts: fc.string({ unit: "grapheme", maxLength: 20 }),
  text: fc.string({ unit: "grapheme", maxLength: 30 }),
  calls: fc.array(
    fc.record({
      id: fc.uuid(),
      name: fc.constantFrom("look", "say"),
      args: fc.dictionary(fc.string({ maxLength: 5 }), fc.jsonValue({ maxDepth: 1 })).map((o) => JSON.stringify(o)),
    }),
    { maxLength: 3 },
  ),
  finish: fc.constantFrom("stop", "length", "tool_calls"),
});

describe("an answer of the Messages API", () => {
  it("is the same streamed and whole, whatever was said and however it was cut", () => {
    fc.assert(
      fc.property(said, fc.integer({ min: 1, max: 9 }), (answer, size) => {
        const streamed = accumulate(events(messages, chunks(answer, size)));
        const expected = read(messages.whole(whole(answer), ASKED));
        // An answer without a word has an empty text block only when it is whole.
        if (Array.isArray(streamed["content"]) && streamed["content"].length === 0) expected.content = [];
        expect(streamed).toEqual(expected);
      }),
    );
  });

  it("opens and closes each block once, in order, when blocks follow each other", () => {
    fc.assert(
      fc.property(said, fc.integer({ min: 1, max: 9 }), (answer, size) => {
        let open: number | undefined;
        let next = 0;
        const all = events(messages, chunks(answer, size));
        for (const { event, data } of all) {
          expect(data.type).toBe(event);
          if (event === "content_block_start") {
            expect([open, data.index]).toEqual([undefined, next]);
            open = next++;
          }
          if (event === "content_block_delta") expect(data.index).toBe(open);
          if (event === "content_block_stop") {
            expect(data.index).toBe(open);
            open = undefined;
          }
        }
        expect(open).toBeUndefined();
        expect(all[0]?.event).toBe("message_start");
        expect(all.slice(-2).map((e) => e.event)).toEqual(["message_delta", "message_stop"]);
      }),
    );
  });

  it("says why it ended, and counts cached tokens apart", () => {
    const of = (finish: string, more: object = {}) => {
      const chat = whole({ thoughts: "", text: "x", calls: [], finish });
      Object.assign((chat["choices"] as Json[])[0]!, more);
      return messages.whole(chat, ASKED);
    };
    expect(of("stop")).toMatchObject({ stop_reason: "end_turn", stop_sequence: null, id: "msg_7", model: "m" });
    expect(of("stop", { stop_reason: "###" })).toMatchObject({ stop_reason: "stop_sequence", stop_sequence: "###" });
    expect(of("length")["stop_reason"]).toBe("max_tokens");
    expect(of("content_filter")["stop_reason"]).toBe("refusal");
    expect(of("stop")["usage"]).toMatchObject({ input_tokens: 4, cache_read_input_tokens: 16, output_tokens: 7 });
  });

  it("keeps what a model wrote as arguments although it is no JSON object", () => {
    const calls = [{ id: "c", name: "look", args: '{"a": ' }];
    const { content } = messages.whole(whole({ thoughts: "", text: "", calls, finish: "tool_calls" }), ASKED);
    expect(content).toEqual([{ type: "tool_use", id: "c", name: "look", input: { arguments: '{"a": ' } }]);
  });

  it("takes whole calls that an engine sends without numbering them", () => {
    const call = (name: string) => ({ id: `id-${name}`, type: "function", function: { name, arguments: "{}" } });
    const choices = [{ index: 0, delta: { tool_calls: [call("a"), call("b")] }, finish_reason: "stop" }];
    const message: Loose = accumulate(events(messages, [{ choices }]));
    expect(message.content.map((b: Loose) => [b.id, b.name])).toEqual([
      ["id-a", "a"],
      ["id-b", "b"],
    ]);
    expect(message.stop_reason).toBe("tool_use");
  });
});

describe("an answer of the Responses API", () => {
  it("is the same streamed and whole, whatever was said and however it was cut", () => {
    fc.assert(
      fc.property(said, fc.integer({ min: 1, max: 9 }), (answer, size) => {
        const all = events(responses, chunks(answer, size));
        const last = all.at(-1)!;
        const expected = read(responseFromChat(whole(answer), ASKED));
        // Thoughts alone leave no message in a stream.
        if (answer.text === "" && answer.thoughts !== "" && answer.calls.length === 0) expected.output.pop();
        for (const item of [...expected.output, ...last.data.response.output]) if (item.status) item.status = "ended";
        expect(last.data.response).toEqual(expected);
        expect(last.event).toBe(answer.finish === "length" ? "response.incomplete" : "response.completed");
      }),
    );
  });

  it("numbers its events, and its deltas make up what is done", () => {
    fc.assert(
      fc.property(said, fc.integer({ min: 1, max: 9 }), (answer, size) => {
        const all = events(responses, chunks(answer, size));
        expect(all.map((e) => e.data.sequence_number)).toEqual(all.map((_, i) => i));
        expect(all.slice(0, 2).map((e) => e.event)).toEqual(["response.created", "response.in_progress"]);
        const text = (type: string, key: string) =>
          all
            .filter((e) => e.event === type)
            .map((e) => e.data[key])
            .join("");
        expect(text("response.output_text.delta", "delta")).toBe(answer.text);
        expect(text("response.output_text.done", "text")).toBe(answer.text);
        const args = answer.calls.map((c) => c.args).join("");
        expect(text("response.function_call_arguments.delta", "delta")).toBe(args);
        expect(text("response.function_call_arguments.done", "arguments")).toBe(args);
        const added = all.filter((e) => e.event === "response.output_item.added").map((e) => e.data.output_index);
        expect(added).toEqual(added.map((_, i) => i));
      }),
    );
  });

  it("repeats what was asked, and tells log probabilities", () => {
    const chat = whole({ thoughts: "", text: "hi", calls: [], finish: "stop" });
    const logprobs = [{ token: "hi", logprob: -0.1, bytes: null, top_logprobs: [] }];
    Object.assign((chat["choices"] as Json[])[0]!, { logprobs: { content: logprobs } });
    const answer = read(responseFromChat(chat, ASKED));
    expect(answer).toMatchObject({ temperature: 0.5, tools: [], store: false, created_at: 9, id: "resp_7" });
    expect(answer.output[0].content[0]).toMatchObject({ text: "hi", logprobs });
    expect(answer.usage).toEqual({
      input_tokens: 20,
      input_tokens_details: { cached_tokens: 16 },
      output_tokens: 7,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: 27,
    });
  });
});
