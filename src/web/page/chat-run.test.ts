import { describe, expect, it } from "vitest";
import { keptTurns } from "./chat-run.ts";
import type { Turn } from "./state.ts";

const user = (text: string): Turn => ({ role: "user", text });
const model = (text: string, error?: string): Turn => ({
  role: "assistant",
  text,
  ...(error === undefined ? {} : { error }),
});
const texts = (turns: readonly Turn[]): string[] => keptTurns(turns).map(({ text }) => text);

// A prompt that was too long once was sent again with each later one, and refused each of them.
describe("keptTurns()", () => {
  it("leaves out a turn that was refused, with what was said in it", () => {
    expect(texts([user("a"), model("b"), user("too long"), model("", "exceeds the context"), user("c")])).toEqual([
      "a",
      "b",
      "c",
    ]);
  });

  it("keeps an answer that broke off, and the last word", () => {
    expect(texts([user("a"), model("half an ans", "Stopped."), user("go on")])).toEqual(["a", "half an ans", "go on"]);
    expect(texts([user("a")])).toEqual(["a"]);
  });
});
