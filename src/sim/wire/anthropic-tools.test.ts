import { describe, expect, it } from "vitest";
import { chatMessages, withChatTools } from "./anthropic-tools.ts";

describe("withChatTools()", () => {
  // Broke: a simulated engine refused every /v1/messages with tools: "body.tools.0.function: Field required".
  it("gives tools of Anthropic's form the form of a chat", () => {
    const schema = { type: "object" };
    expect(
      withChatTools({
        max_tokens: 1,
        tools: [
          { name: "a", description: "d", input_schema: schema },
          { name: "b", input_schema: schema },
        ],
      }),
    ).toEqual({
      max_tokens: 1,
      tools: [
        { type: "function", function: { name: "a", description: "d", parameters: schema } },
        { type: "function", function: { name: "b", parameters: schema } },
      ],
    });
  });

  it.each([
    [{ type: "auto" }, "auto"],
    [{ type: "any" }, "required"],
    [
      { type: "tool", name: "a" },
      { type: "function", function: { name: "a" } },
    ],
  ])("gives the choice %j as %j", (given, expected) => {
    expect(withChatTools({ tool_choice: given })).toEqual({ tool_choice: expected });
  });

  it("leaves what it does not know to the check", () => {
    expect(withChatTools({ tools: "x" })).toEqual({ tools: "x" });
    expect(withChatTools({ tools: [{ name: "a" }, 1] })).toEqual({ tools: [{ name: "a" }, 1] });
    expect(withChatTools({})).toEqual({});
  });
});

describe("chatMessages()", () => {
  it("makes calls and results messages of a chat, and leaves other messages alone", () => {
    const plain = [{ role: "user", content: [{ type: "text", text: "a" }] }];
    expect(chatMessages({ messages: plain })).toBeUndefined();
    const use = { type: "tool_use", id: "t", name: "read", input: { path: "a" } };
    const result = { type: "tool_result", tool_use_id: "t", content: "red" };
    const messages = [...plain, { role: "assistant", content: [use] }, { role: "user", content: [result] }];
    expect(chatMessages({ system: "s", messages })).toEqual([
      { role: "system", content: "s" },
      { role: "user", content: "a" },
      {
        role: "assistant",
        tool_calls: [{ id: "t", type: "function", function: { name: "read", arguments: '{"path":"a"}' } }],
      },
      { role: "tool", tool_call_id: "t", content: "red" },
    ]);
  });
});
