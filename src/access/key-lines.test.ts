import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { hashApiKey, hashChosenKey, newApiKey } from "./api-key.ts";
import { KEY_FIELDS, parseKeyLines } from "./key-lines.ts";

const HASH = "ab".repeat(32);

describe("parseKeyLines()", () => {
  it("reads a bare hash as a full inference key", () => {
    const { entries, problems } = parseKeyLines(`# keys\n\n${HASH.toUpperCase()}  # old\r\n`);
    expect(problems).toEqual([]);
    expect(entries).toEqual([{ hash: HASH, name: "key-abababab", scopes: ["inference"], limits: {} }]);
  });

  it("reads every field, with quotes around blanks", () => {
    const line = `sha256:${HASH} name="Team A" scopes=inference,metrics models=qwen*,m rps=0.5 rpm=6 tpm=7 concurrent=8 max_prompt_tokens=9 priority=-2 expires=2027-01-31`;
    expect(parseKeyLines(line).entries[0]).toEqual({
      hash: HASH,
      name: "Team A",
      scopes: ["inference", "metrics"],
      models: ["qwen*", "m"],
      limits: { rps: 0.5, rpm: 6, tpm: 7, concurrent: 8, maxPromptTokens: 9 },
      priority: -2,
      expiresAtMs: Date.UTC(2027, 0, 31),
    });
  });

  it("reads keys that people chose", async () => {
    const text = await hashChosenKey("correct horse", Buffer.alloc(16, 7));
    expect(parseKeyLines(`${text} name=bob`).entries[0]?.name).toBe("bob");
  });

  it.each([
    [newApiKey(), /a key itself stands here/],
    ["xyz", /neither 64 hex digits/],
    [`${HASH} rmp=5`, /"rmp=5" is no field/],
    [`${HASH} rpm=0`, /rpm=0 is no whole number above 0/],
    [`${HASH} rpm=1e999`, /no whole number/],
    [`${HASH} rpm=1 rpm=2`, /rpm stands here twice/],
    [`${HASH} scopes=root`, /"root" is no scope/],
    [`${HASH} expires=soon`, /is no date/],
    [`${HASH} name=`, /name is empty/],
    [`${HASH}\n${HASH}`, /stands on line 1 already/],
    ["scrypt:30:8:1:AAAAAAAAAAAAAAAAAAAAAA:x", /neither 64 hex/],
  ])("refuses %s", (text, said) => {
    const { entries, problems } = parseKeyLines(text);
    expect(problems[0]?.problem).toMatch(said);
    expect(entries.length).toBeLessThan(2);
  });

  it("a slip in one line costs no other line", () => {
    const other = hashApiKey("x");
    const { entries, problems } = parseKeyLines(`${HASH} tmp=5\n${other} name=b`);
    expect(problems.map(({ line }) => line)).toEqual([1]);
    expect(entries.map(({ name }) => name)).toEqual(["b"]);
  });

  it("never throws, and never makes a key of a line that it complains of", () => {
    const word = fc.oneof(
      fc.string(),
      fc.constantFrom(HASH, "#", '"', "name=", "scopes=,", "models=*", "priority=x"),
      fc.constantFrom(...KEY_FIELDS).map((field) => `${field}=1`),
    );
    fc.assert(
      fc.property(fc.array(fc.array(word, { maxLength: 5 }), { maxLength: 5 }), (lines) => {
        const { entries, problems } = parseKeyLines(lines.map((words) => words.join(" ")).join("\n"));
        for (const { limits } of entries) for (const value of Object.values(limits)) expect(value).toBeGreaterThan(0);
        expect(entries.length + problems.length).toBeLessThanOrEqual(
          lines.join("\n").split(/\n/).length + lines.length * 5,
        );
      }),
    );
  });
});
