import { describe, expect, it } from "vitest";
import { createSentTexts } from "./sent-texts.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const SYSTEM = "You are a careful assistant. ".repeat(20);
const FIRST = `${SYSTEM}What is it?`;

describe("createSentTexts", () => {
  it("holds() any longer part of a prompt that was sent", () => {
    const sent = createSentTexts();
    sent.note(bytes(FIRST));
    expect(sent.holds(bytes(SYSTEM))).toBe(true);
    expect(sent.holds(bytes(FIRST.slice(16)))).toBe(true);
    expect(sent.holds(bytes(SYSTEM.slice(0, 100)))).toBe(false);
    expect(sent.holds(bytes(SYSTEM.replaceAll("careful", "careless")))).toBe(false);
  });

  it("holds() nothing in which the answer to an earlier turn may be", () => {
    const sent = createSentTexts();
    sent.note(bytes(FIRST));
    sent.note(bytes(`${FIRST} It is ${"so ".repeat(200)} And now?`));
    expect(sent.holds(bytes("so ".repeat(150)))).toBe(false);
    expect(sent.holds(bytes(SYSTEM))).toBe(true);
  });

  it("forgets the prompts that were sent longest ago", () => {
    const sent = createSentTexts();
    sent.note(bytes(FIRST));
    for (let i = 0; i < 8; i++) sent.note(bytes(`${i}`));
    expect(sent.holds(bytes(SYSTEM))).toBe(false);
  });
});
