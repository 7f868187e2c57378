import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { makeAnswer } from "./text.ts";
import { decodeIds, encodeText, renderChat } from "./tokens.ts";

describe("makeAnswer()", () => {
  it("gives the same for the same prompt and seed, and something else for another", () => {
    const prompt = encodeText("hello");
    const one = makeAnswer({ prompt, seed: 0, maxTokens: 1000 });
    expect(makeAnswer({ prompt, seed: 0, maxTokens: 1000 })).toEqual(one);
    expect(makeAnswer({ prompt, seed: 1, maxTokens: 1000 })).not.toEqual(one);
    expect(one.finish).toBe("stop");
  });

  it("keeps to the limits, whatever they are", () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ minLength: 1 }),
        fc.integer({ min: 1, max: 600 }),
        fc.boolean(),
        (bytes, maxTokens, ignoreEos) => {
          const answer = makeAnswer({ prompt: [...bytes], seed: 3, maxTokens, ignoreEos });
          expect(answer.text.length).toBeGreaterThan(0);
          expect(answer.text.length).toBeLessThanOrEqual(maxTokens);
          if (ignoreEos) expect([answer.text.length, answer.finish]).toEqual([maxTokens, "length"]);
          expect(encodeText(answer.text)).toHaveLength(answer.text.length);
        },
      ),
    );
  });

  it("ends before a stop text and names it", () => {
    const answer = makeAnswer({ prompt: [1], seed: 0, maxTokens: 1000, stop: ["zzz", "."] });
    expect(answer).toMatchObject({ finish: "stop", stopReason: "." });
    expect(answer.text).not.toContain(".");
  });
});

describe("renderChat()", () => {
  const render = (kind: "vllm" | "sglang", chat: object) => {
    const rendered = renderChat(kind, chat);
    return "bytes" in rendered ? decodeIds([...rendered.bytes]) : rendered.reason;
  };

  it("gives text whose bytes are the token ids", () => {
    const text = render("vllm", { messages: [{ role: "user", content: "Grüße" }] });
    expect(text).toBe("<|im_start|>user\nGrüße<|im_end|>\n<|im_start|>assistant\n");
    expect(decodeIds(encodeText(text))).toBe(text);
  });

  it("renders a conversation so that it begins with what came before", () => {
    const first = render("vllm", { messages: [{ role: "user", content: "a" }] });
    const messages = [
      { role: "user", content: [{ type: "text", text: "a" }] },
      { role: "assistant", content: "b" },
      { role: "user", content: "c" },
    ];
    expect(render("vllm", { messages }).startsWith(`${first}b<|im_end|>\n`)).toBe(true);
  });

  it("joins text parts as each engine does", () => {
    const content = ["a", "b"].map((text) => ({ type: "text", text }));
    expect(render("vllm", { messages: [{ role: "user", content }] })).toContain("a\nb");
    expect(render("sglang", { messages: [{ role: "user", content }] })).toContain("a b");
  });

  it("puts tools in front, and leaves the assistant's turn closed when asked", () => {
    const messages = [{ role: "user", content: "a" }];
    const text = render("vllm", { messages, tools: [{ type: "function" }], add_generation_prompt: false });
    expect(text).toMatch(/^<\|im_start\|>tools\n.*function.*<\|im_end\|>\n<\|im_start\|>user\na<\|im_end\|>\n$/s);
  });
});
