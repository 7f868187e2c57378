import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { spliceMembers } from "./splice.ts";

const splice = (json: string, edits: Record<string, string | undefined>): string =>
  spliceMembers(Buffer.from(json), edits).toString();

describe("spliceMembers()", () => {
  it("replaces a value and keeps every other byte", () => {
    expect(splice('{ "model" : "a",\n "x": 1e2 }', { model: '"b"' })).toBe('{ "model" : "b",\n "x": 1e2 }');
  });

  it("deletes the first, a middle, the last and the only member", () => {
    expect(splice('{"a":1,"b":2}', { a: undefined })).toBe('{"b":2}');
    expect(splice('{"a":1,"b":2,"c":3}', { b: undefined })).toBe('{"a":1,"c":3}');
    expect(splice('{"a":1, "b":2 }', { b: undefined })).toBe('{"a":1 }');
    expect(splice('{ "a":1 }', { a: undefined })).toBe("{  }");
  });

  it("adds a member that is not there, to an empty object too", () => {
    expect(splice('{"a":1}', { stream: "true" })).toBe('{"a":1,"stream":true}');
    expect(splice("{ }", { stream: "true" })).toBe('{"stream":true }');
  });

  it("does not touch members of the same name further down, nor keys inside strings", () => {
    const json = '{"m":{"model":"x"},"s":"\\"model\\":1","model":"a"}';
    expect(JSON.parse(splice(json, { model: '"b"' }))).toEqual({ m: { model: "x" }, s: '"model":1', model: "b" });
  });

  it("knows a key that is spelled with escapes", () => {
    expect(JSON.parse(splice('{"\\u006dodel":"a"}', { model: '"b"' }))).toEqual({ model: "b" });
  });

  it("changes both of two equal keys", () => {
    expect(splice('{"a":1,"a":2}', { a: "3" })).toBe('{"a":3,"a":3}');
    expect(splice('{"a":1,"a":2,"b":0}', { a: undefined })).toBe('{"b":0}');
  });

  it("gives the same as the edit on the parsed object, whatever object, spacing and edits", () => {
    const key = fc.oneof(fc.constantFrom("model", "stream", "a", "b", "kv_transfer_params"), fc.string());
    const object = fc.dictionary(
      key.filter((k) => k !== "__proto__"),
      fc.jsonValue(),
      { maxKeys: 8 },
    );
    const edits = fc.dictionary(
      key.filter((k) => k !== "__proto__"),
      fc.option(fc.jsonValue(), { nil: undefined }),
    );
    fc.assert(
      fc.property(object, edits, fc.constantFrom(undefined, 1, "\t", "\r\n "), (value, edit, space) => {
        const text = JSON.stringify(value, null, space);
        const want: Record<string, unknown> = JSON.parse(text);
        const as: Record<string, string | undefined> = {};
        for (const [k, v] of Object.entries(edit)) {
          as[k] = v === undefined ? undefined : JSON.stringify(v);
          if (v === undefined) delete want[k];
          else want[k] = JSON.parse(as[k]!);
        }
        expect(JSON.parse(splice(text, as))).toEqual(want);
      }),
      { numRuns: 500 },
    );
  });
});
