import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ContinuedStream, mayContinue } from "./continuation.ts";
import type { ReadRequest } from "./read.ts";

function request(json: Record<string, unknown>, kind: ReadRequest["kind"] = "chat"): ReadRequest {
  const { stream = true } = json;
  return { kind, model: "m", body: Buffer.alloc(0), json, stream: stream === true, root: "", readsCache: true };
}

const CHAT = { model: "m", messages: [{ role: "user", content: "Hi" }], stream: true };

describe("mayContinue()", () => {
  it.each([
    [CHAT, true],
    [
      { ...CHAT, n: 1, tools: [], temperature: 0.5, stop: ["x"], max_tokens: 5, response_format: { type: "text" } },
      true,
    ],
    [{ ...CHAT, tools: [{}], tool_choice: "none" }, true],
    [{ ...CHAT, response_format: null, tools: null, logit_bias: null, guided_regex: null }, true],
    [{ ...CHAT, stream: false }, false],
    [{ ...CHAT, n: 2 }, false],
    [{ ...CHAT, tools: [{}] }, false],
    [{ ...CHAT, response_format: { type: "json_object" } }, false],
    [{ ...CHAT, guided_regex: "a*" }, false],
    [{ ...CHAT, something_new: 1 }, false],
    [{ ...CHAT, messages: [{ role: "assistant", content: "Hi" }] }, false],
    [{ ...CHAT, messages: "Hi" }, false],
  ])("%j: %s", (json, may) => {
    expect(mayContinue(request(json))).toBe(may);
  });

  it("a text completion of one text only", () => {
    expect(mayContinue(request({ prompt: "a", stream: true }, "completion"))).toBe(true);
    for (const prompt of [["a"], [1, 2], undefined])
      expect(mayContinue(request({ prompt, stream: true }, "completion"))).toBe(false);
    expect(mayContinue(request({ prompt: "a", echo: true, stream: true }, "completion"))).toBe(false);
    expect(mayContinue(request({ input: "a", stream: true }, "responses"))).toBe(false);
  });
});

const chunk = (id: string, content: string, more: object = {}) => ({
  id,
  created: 1,
  model: "m",
  choices: [{ index: 0, delta: { content }, finish_reason: null }],
  ...more,
});
const contentOf = (taken: unknown): string =>
  (taken as { choices: { delta: { content?: string } }[] } | undefined)?.choices[0]?.delta.content ?? "";

describe("ContinuedStream", () => {
  it("gives the client one text under one id, wherever engines die, with white space made anew or not", () => {
    const piece = fc.string({ unit: fc.constantFrom("a", "é", " ", "\n", "語"), maxLength: 6 });
    fc.assert(
      fc.property(fc.array(fc.array(piece, { maxLength: 6 }), { minLength: 1, maxLength: 3 }), (legs) => {
        const stream = new ContinuedStream();
        let wanted = "";
        let seen = "";
        const ids = new Set<unknown>();
        legs.forEach((pieces, leg) => {
          let sent = pieces;
          if (leg > 0) {
            const edits = stream.nextEdits(request(CHAT), {});
            const messages = edits["messages"] === undefined ? [] : JSON.parse(edits["messages"]);
            const given: string = messages.at(-1)?.content ?? "";
            // What the engine is given and what it adds make up the text: it makes the white space at the end anew.
            expect(wanted.startsWith(given)).toBe(true);
            sent = [wanted.slice(given.length), ...pieces];
          }
          for (const text of sent) {
            const taken = stream.take(chunk(`leg ${leg}`, text));
            seen += contentOf(taken);
            if (taken !== undefined) ids.add((taken as { id: unknown }).id);
          }
          wanted += pieces.join("");
        });
        expect(seen).toBe(wanted);
        expect(stream.text).toBe(wanted);
        expect(ids.size).toBeLessThanOrEqual(1);
      }),
    );
  });

  it("leaves all of the first engine's chunks as they are, the very same objects", () => {
    const stream = new ContinuedStream();
    for (const each of [chunk("x", "a"), chunk("x", ""), { choices: [], usage: { prompt_tokens: 1 } }, 7, undefined])
      expect(stream.take(each)).toBe(each);
  });

  it("corrects usage: the sum stays, what was generated before is no prompt", () => {
    const stream = new ContinuedStream();
    for (const text of ["a", "b", "c"]) stream.take(chunk("x", text));
    const edits = stream.nextEdits(request({ ...CHAT, max_tokens: 10, min_tokens: 2 }), { go: "true" });
    expect([edits["max_tokens"], edits["min_tokens"], edits["go"]]).toEqual(["7", "0", "true"]);
    const usage = { prompt_tokens: 13, completion_tokens: 4, total_tokens: 17 };
    expect(stream.take({ id: "y", choices: [], usage })).toMatchObject({
      id: "x",
      usage: { prompt_tokens: 10, completion_tokens: 7, total_tokens: 17 },
    });
  });

  // The next engine was asked for one token at least, and the client got one too many.
  it("takes no text of the next engine once the limit is reached, only the finish and the usage", () => {
    const stream = new ContinuedStream();
    for (const text of ["a", "b"]) stream.take(chunk("x", text));
    expect(stream.nextEdits(request({ ...CHAT, max_tokens: 2 }), {})["max_tokens"]).toBe("1");
    expect(stream.take(chunk("y", "c"))).toBeUndefined();
    expect(stream.take({ id: "y", choices: [{ index: 0, delta: { content: "d" }, finish_reason: "stop" }] })).toEqual({
      id: "x",
      created: 1,
      model: "m",
      choices: [{ index: 0, delta: { content: "" }, finish_reason: "length" }],
    });
    const usage = { prompt_tokens: 12, completion_tokens: 1, total_tokens: 13 };
    expect(stream.take({ id: "y", choices: [], usage })).toMatchObject({
      usage: { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12 },
    });
    expect(stream.text).toBe("ab");
  });

  it.each([
    { reasoning_content: "hm" },
    { tool_calls: [{ index: 0 }] },
    { refusal: "no" },
    { function_call: { name: "f" } },
  ])("is not usable after %j", (delta) => {
    const stream = new ContinuedStream();
    stream.take({ choices: [{ index: 0, delta }] });
    expect(stream.usable).toBe(false);
  });

  it("is usable with members that are empty", () => {
    const stream = new ContinuedStream();
    stream.take({
      choices: [{ index: 0, delta: { role: "assistant", content: "a", tool_calls: [], reasoning: null } }],
    });
    expect(stream.usable).toBe(true);
  });
});
