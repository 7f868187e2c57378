import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { CgnError } from "../../core/errors.ts";
import { chatFromMessages } from "./messages-request.ts";
import { chatFromResponses } from "./responses-request.ts";

const user = (content: unknown) => ({ role: "user", content });
const asked = (more: object) => ({ model: "m", max_tokens: 5, messages: [user("hi")], ...more });
const messagesOf = (messages: unknown[]) => chatFromMessages(asked({ messages }))["messages"];

function refused(run: () => unknown): CgnError {
  try {
    run();
  } catch (e) {
    if (e instanceof CgnError) return e as CgnError;
    throw e;
  }
  throw new Error("it was not refused");
}

describe("chatFromMessages()", () => {
  it("keeps the plain members and those that only engines know, and takes Anthropic's own away", () => {
    const chat = chatFromMessages(
      asked({
        temperature: 0,
        top_k: 3,
        cache_salt: "s",
        seed: 4,
        metadata: { user_id: "u" },
        service_tier: "auto",
        stop_sequences: ["#"],
      }),
    );
    expect(chat).toEqual({
      model: "m",
      max_tokens: 5,
      temperature: 0,
      top_k: 3,
      cache_salt: "s",
      seed: 4,
      user: "u",
      stop: ["#"],
      messages: [user("hi")],
    });
  });

  it("puts the system prompt first, its blocks joined", () => {
    const system = [
      { type: "text", text: "A", cache_control: { type: "ephemeral" } },
      { type: "text", text: "B" },
    ];
    expect(chatFromMessages(asked({ system }))["messages"]).toEqual([{ role: "system", content: "AB" }, user("hi")]);
    expect(chatFromMessages(asked({ system: "C" }))["messages"]).toEqual([
      { role: "system", content: "C" },
      user("hi"),
    ]);
  });

  it("asks for usage when it asks for a stream", () => {
    expect(chatFromMessages(asked({ stream: true }))).toMatchObject({
      stream: true,
      stream_options: { include_usage: true },
    });
    expect(chatFromMessages(asked({ stream: false }))).not.toHaveProperty("stream");
  });

  it("makes images parts, and one text plain", () => {
    const source = { type: "base64", media_type: "image/png", data: "AAAA" };
    const blocks = [
      { type: "text", text: "what?" },
      { type: "image", source },
      { type: "image", source: { type: "url", url: "https://x/y.png" } },
    ];
    expect(messagesOf([user(blocks), user([{ type: "text", text: "one" }])])).toEqual([
      user([
        { type: "text", text: "what?" },
        { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } },
        { type: "image_url", image_url: { url: "https://x/y.png" } },
      ]),
      user("one"),
    ]);
  });

  it("makes calls of tools and their results messages of their own, results before what the user says", () => {
    const call = { type: "tool_use", id: "t1", name: "look", input: { at: "sky" } };
    const result = { type: "tool_result", tool_use_id: "t1", content: [{ type: "text", text: "blue" }] };
    const turns = [
      {
        role: "assistant",
        content: [{ type: "thinking", thinking: "hm", signature: "" }, { type: "text", text: "so" }, call],
      },
      user([{ type: "text", text: "and?" }, result]),
    ];
    expect(messagesOf([user("sky?"), ...turns])).toEqual([
      user("sky?"),
      {
        role: "assistant",
        content: "so",
        reasoning_content: "hm",
        tool_calls: [{ id: "t1", type: "function", function: { name: "look", arguments: '{"at":"sky"}' } }],
      },
      { role: "tool", tool_call_id: "t1", content: "blue" },
      user("and?"),
    ]);
  });

  it("puts the images of a tool's result into the user's message", () => {
    const image = { type: "image", source: { type: "url", url: "https://x/y.png" } };
    const result = { type: "tool_result", tool_use_id: "t1", content: [{ type: "text", text: "see" }, image] };
    expect(messagesOf([user([result])])).toEqual([
      { role: "tool", tool_call_id: "t1", content: "see" },
      user([{ type: "image_url", image_url: { url: "https://x/y.png" } }]),
    ]);
  });

  it("converts tools and the choice among them", () => {
    const tools = [{ name: "look", description: "d", input_schema: { type: "object" } }];
    const chat = chatFromMessages(asked({ tools, tool_choice: { type: "any", disable_parallel_tool_use: true } }));
    expect(chat).toMatchObject({
      tools: [{ type: "function", function: { name: "look", description: "d", parameters: { type: "object" } } }],
      tool_choice: "required",
      parallel_tool_calls: false,
    });
    const one = chatFromMessages(asked({ tools, tool_choice: { type: "tool", name: "look" } }));
    expect(one["tool_choice"]).toEqual({ type: "function", function: { name: "look" } });
  });

  it("passes thinking, effort and a format on", () => {
    const schema = { type: "object" };
    const chat = chatFromMessages(
      asked({
        thinking: { type: "enabled", budget_tokens: 1024 },
        chat_template_kwargs: { a: 1 },
        output_config: { effort: "low", format: { type: "json_schema", schema } },
      }),
    );
    expect(chat).toMatchObject({
      chat_template_kwargs: { enable_thinking: true, a: 1 },
      reasoning_effort: "low",
      response_format: { type: "json_schema", json_schema: { schema } },
    });
  });

  it.each([
    ["no messages", { messages: [] }, "REQUEST_INVALID"],
    ["no max_tokens", { max_tokens: undefined }, "REQUEST_INVALID"],
    ["a role that there is not", { messages: [{ role: "bot", content: "x" }] }, "REQUEST_INVALID"],
    ["content that is no text", { messages: [user(7)] }, "REQUEST_INVALID"],
    ["a block that is no object", { messages: [user([null])] }, "REQUEST_INVALID"],
    ["an image without data", { messages: [user([{ type: "image", source: { type: "base64" } }])] }, "REQUEST_INVALID"],
    ["a result of no call", { messages: [user([{ type: "tool_result" }])] }, "REQUEST_INVALID"],
    ["a tool of Anthropic's servers", { tools: [{ type: "web_search_20250305", name: "w" }] }, "NOT_SUPPORTED"],
    ["an MCP server", { mcp_servers: [{ url: "x" }] }, "NOT_SUPPORTED"],
    ["a PDF", { messages: [user([{ type: "document", source: { type: "base64", data: "x" } }])] }, "NOT_SUPPORTED"],
  ])("refuses %s", (_, more, code) => {
    const error = refused(() => chatFromMessages(asked(more)));
    expect(error.code).toBe(code);
    expect(error.message).toMatch(/^Cannot .*: .*\. /s);
  });

  it("throws nothing but refusals, whatever it gets", () => {
    fc.assert(
      fc.property(fc.object({ maxDepth: 4 }), (more) => {
        try {
          chatFromMessages(asked(more));
        } catch (e) {
          expect(e).toBeInstanceOf(CgnError);
        }
      }),
    );
  });
});

describe("chatFromResponses()", () => {
  const of = (more: object) => chatFromResponses({ model: "m", input: "hi", ...more });

  it("takes text and instructions", () => {
    expect(of({ instructions: "be brief", max_output_tokens: 9, store: true, seed: 3 })).toEqual({
      model: "m",
      seed: 3,
      max_tokens: 9,
      messages: [{ role: "system", content: "be brief" }, user("hi")],
    });
  });

  it("takes items: messages, thoughts, calls and their outputs", () => {
    const input = [
      { role: "user", content: [{ type: "input_text", text: "sky?" }] },
      { type: "reasoning", id: "r", summary: [{ type: "summary_text", text: "hm" }] },
      { type: "function_call", call_id: "c1", name: "look", arguments: "{}" },
      { type: "function_call_output", call_id: "c1", output: "blue" },
      { type: "reasoning", id: "r2", summary: [], content: [{ type: "reasoning_text", text: "so" }] },
      { type: "message", role: "assistant", content: [{ type: "output_text", text: "It is blue.", annotations: [] }] },
      {
        role: "user",
        content: [
          { type: "input_text", text: "this?" },
          { type: "input_image", image_url: "data:x" },
        ],
      },
    ];
    expect(of({ input })["messages"]).toEqual([
      user("sky?"),
      {
        role: "assistant",
        content: null,
        reasoning_content: "hm",
        tool_calls: [{ id: "c1", type: "function", function: { name: "look", arguments: "{}" } }],
      },
      { role: "tool", tool_call_id: "c1", content: "blue" },
      { role: "assistant", content: "It is blue.", reasoning_content: "so" },
      user([
        { type: "text", text: "this?" },
        { type: "image_url", image_url: { url: "data:x" } },
      ]),
    ]);
  });

  it("converts tools, formats, effort and log probabilities", () => {
    const schema = { type: "object" };
    expect(
      of({
        tools: [{ type: "function", name: "look", parameters: schema, strict: true }],
        tool_choice: { type: "function", name: "look" },
        text: { format: { type: "json_schema", name: "n", schema, strict: true } },
        reasoning: { effort: "high" },
        include: ["message.output_text.logprobs"],
        top_logprobs: 2,
        stream: true,
      }),
    ).toMatchObject({
      tools: [{ type: "function", function: { name: "look", parameters: schema, strict: true } }],
      tool_choice: { type: "function", function: { name: "look" } },
      response_format: { type: "json_schema", json_schema: { name: "n", schema, strict: true } },
      reasoning_effort: "high",
      logprobs: true,
      top_logprobs: 2,
      stream_options: { include_usage: true },
    });
  });

  it.each([
    ["a stored past", { previous_response_id: "resp_1" }, "NOT_SUPPORTED"],
    ["work in the background", { background: true }, "NOT_SUPPORTED"],
    ["a tool of OpenAI's servers", { tools: [{ type: "web_search" }] }, "NOT_SUPPORTED"],
    ["a file", { input: [{ role: "user", content: [{ type: "input_file", file_id: "f" }] }] }, "NOT_SUPPORTED"],
    ["no input", { input: [] }, "REQUEST_INVALID"],
    ["input that is no list", { input: 4 }, "REQUEST_INVALID"],
  ])("refuses %s", (_, more, code) => {
    expect(refused(() => of(more)).code).toBe(code);
  });

  it("throws nothing but refusals, whatever it gets", () => {
    fc.assert(
      fc.property(fc.object({ maxDepth: 4 }), (more) => {
        try {
          of(more);
        } catch (e) {
          expect(e).toBeInstanceOf(CgnError);
        }
      }),
    );
  });
});
