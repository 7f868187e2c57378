import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { chatDelta, SseText } from "./sse-text.ts";

describe("SseText", () => {
  it("gives the same events however the text is cut", () => {
    const text = 'data: {"a":1}\n\n: comment\n\ndata: two\r\ndata: lines\r\n\r\nevent: x\ndata:[DONE]\n\n';
    const whole = new SseText().push(text);
    expect(whole).toEqual(['{"a":1}', "two\nlines", "[DONE]"]);
    fc.assert(
      fc.property(fc.array(fc.nat({ max: text.length }), { maxLength: 8 }), (cuts) => {
        const places = [0, ...cuts.sort((a, b) => a - b), text.length];
        const events = new SseText();
        const got = places.slice(1).flatMap((to, i) => events.push(text.slice(places[i], to)));
        expect(got).toEqual(whole);
      }),
    );
  });
});

describe("chatDelta()", () => {
  it("reads text, thoughts, usage and errors", () => {
    expect(chatDelta('{"choices":[{"delta":{"content":"Hi"}}]}')).toEqual({ text: "Hi", thoughts: "" });
    expect(chatDelta('{"choices":[{"delta":{"reasoning_content":"hm"}}]}')).toEqual({ text: "", thoughts: "hm" });
    expect(
      chatDelta(
        '{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}',
      ),
    ).toEqual({ text: "", thoughts: "", usage: { prompt: 9, generated: 2, cached: 4 } });
    expect(chatDelta('{"error":{"message":"lost"}}')).toEqual({ text: "", thoughts: "", error: "lost" });
    expect(chatDelta('{"usage":{"prompt_tokens":9,"prompt_tokens_details":null}}')).toMatchObject({
      usage: { prompt: 9 },
    });
  });

  it("has nothing for the end and for what is no JSON", () => {
    expect([chatDelta("[DONE]"), chatDelta("{")]).toEqual([undefined, undefined]);
  });
});
