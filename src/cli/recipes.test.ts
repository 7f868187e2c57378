import { describe, expect, it } from "vitest";
import { isCgnError } from "../core/errors.ts";
import { findRecipe, listRecipes, type Recipe } from "./recipes.ts";

const named = (...names: string[]): Recipe[] => names.map((name) => ({ name, path: `/x/${name}.toml`, about: "" }));
const SOME = named("a/vllm/none", "a/vllm/lmcache", "a/sglang/none", "b/vllm/pair/prefill-host");

function refusal(work: () => unknown): string {
  try {
    work();
  } catch (e) {
    if (isCgnError(e, "BAD_INVOCATION")) return e.message;
    throw e;
  }
  throw new Error("Expected a refusal");
}

describe("findRecipe", () => {
  it("findRecipe() takes a name, with .toml too, or parts that only one has", () => {
    expect(findRecipe("a/vllm/none", SOME).name).toBe("a/vllm/none");
    expect(findRecipe("a/vllm/none.toml", SOME).name).toBe("a/vllm/none");
    expect(findRecipe("sglang", SOME).name).toBe("a/sglang/none");
    expect(findRecipe("b/prefill-host", SOME).name).toBe("b/vllm/pair/prefill-host");
  });

  it("findRecipe() names all that fit, or the nearest", () => {
    expect(refusal(() => findRecipe("a/none", SOME))).toMatch(/2 fit\. Choose one: a\/vllm\/none, a\/sglang\/none$/);
    expect(refusal(() => findRecipe("a/vllm/lmcash", SOME))).toMatch(/Choose one: a\/vllm\/lmcache,/);
  });

  it("findRecipe() takes the beginning of a part, and offers what shares the leading parts", () => {
    // `qwen3` was "none of that name", and a slip in the last part offered recipes of other models.
    const some = named(
      "qwen3-8b/vllm/none",
      "qwen3-8b/sglang/none",
      "qwen3-32b/vllm/none",
      "s/llama-cpp/binary",
      "s/mlx/one",
    );
    expect(refusal(() => findRecipe("qwen3", some))).toMatch(/: 3 fit\. Choose one: qwen3-8b\/vllm\/none, /);
    expect(findRecipe("qwen3-3/vl", some).name).toBe("qwen3-32b/vllm/none");
    expect(findRecipe("32b", some).name).toBe("qwen3-32b/vllm/none");
    expect(findRecipe("S/Binary", some).name).toBe("s/llama-cpp/binary");
    expect(refusal(() => findRecipe("s/llama-cpp/nope", some))).toMatch(
      /none of that name\. Choose one: s\/llama-cpp\/binary$/,
    );
    expect(refusal(() => findRecipe("/", some))).toMatch(/none of that name/);
    expect(refusal(() => findRecipe("qwen3"))).toMatch(/: \d+ fit\. .*, … \(cgn recipe list qwen3 shows all\)$/);
  });
});

describe("listRecipes", () => {
  it("listRecipes() finds a line about each, and the models that people ask for", () => {
    const recipes = listRecipes();
    expect(recipes.filter(({ about }) => about.length < 20)).toEqual([]);
    const models = new Set(recipes.map(({ name }) => name.split("/")[0]));
    for (const family of ["llama-3", "qwen3", "gpt-oss", "deepseek"]) {
      expect([...models].filter((model) => model!.startsWith(family)).length).toBeGreaterThan(0);
    }
    for (const offload of ["none", "nixl", "lmcache", "hicache", "kvbm", "two-hosts"]) {
      expect(recipes.filter(({ name }) => name.includes(offload)).length).toBeGreaterThan(0);
    }
  });
});
