import { describe, expect, it } from "vitest";
import { API_PATHS, allPathsBut, samePaths } from "./api-paths.ts";

describe("samePaths()", () => {
  it("names the path itself first, then its other spellings, when an API has several", () => {
    expect(samePaths("/rerank")).toEqual(["/rerank", "/v1/rerank", "/v2/rerank"]);
    expect(samePaths("/v1/rerank")[0]).toBe("/v1/rerank");
  });

  it("gives back a path alone when it is not known or has one spelling", () => {
    expect(samePaths("/v1/nope")).toEqual(["/v1/nope"]);
    expect(samePaths("/v1/messages")).toEqual(["/v1/messages"]);
  });

  it("keeps other APIs apart", () => {
    for (const path of API_PATHS)
      for (const other of samePaths(path))
        expect(samePaths(other)).toEqual(expect.arrayContaining([...samePaths(path)]));
    expect(samePaths("/tokenize")).not.toContain("/detokenize");
  });
});

describe("allPathsBut()", () => {
  it("leaves out what an engine has, and nothing else", () => {
    const lacks = allPathsBut(["/v1/chat/completions", "/v1/completions"]);
    expect(lacks).not.toContain("/v1/completions");
    expect(lacks.length).toBe(API_PATHS.length - 2);
  });
});
