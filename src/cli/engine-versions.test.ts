import { describe, expect, it } from "vitest";
import type { CgnError } from "../core/errors.ts";
import { givenVersions } from "./engine-versions.ts";

const given = (...words: string[]) => givenVersions({ engineVersion: words });

describe("givenVersions()", () => {
  it("takes one version for all kinds, and one for a kind, which wins", () => {
    const of = given("0.32.0", "sglang=0.5.20");
    expect([of?.({ index: 0, kind: "vllm" }), of?.({ index: 1, kind: "sglang" })]).toEqual(["0.32.0", "0.5.20"]);
    expect(given("vllm=0.30")?.({ index: 0, kind: "sglang" })).toBeUndefined();
    expect(givenVersions({})).toBeUndefined();
  });

  it.each(["latest", "vlm=0.32", "vllm=0.32=1", "vllm=", ""])("refuses %j", (word) => {
    expect(() => given(word)).toThrow(/^Cannot read --engine-version/);
    try {
      given(word);
    } catch (e) {
      expect((e as CgnError).code).toBe("BAD_INVOCATION");
    }
  });
});
