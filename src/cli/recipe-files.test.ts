import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { recipeFiles } from "./recipe-files.ts";
import { findRecipe } from "./recipes.ts";

// `cgn recipe up smollm2-135m/llama-cpp/xllamacpp` failed in a fresh clone, also after `cgn demo --prepare`: it names files of its author.
const RECIPE = readFileSync(findRecipe("smollm2-135m/llama-cpp/xllamacpp").path, "utf8");
const INSTALLED = { python: "/cache/venv/bin/python", gguf: "/cache/venv/smol.gguf" };

describe("recipeFiles()", () => {
  it("stands in for what is not there with what cgn demo --prepare installed", () => {
    const { sets, lines } = recipeFiles(RECIPE, "/clone", INSTALLED, () => false);
    expect(sets).toEqual([
      "engine.llama_cpp.binary=/cache/venv/bin/python",
      "models.smollm2.path=/cache/venv/smol.gguf",
    ]);
    expect(lines).toHaveLength(2);
  });

  it("leaves what is there, and other recipes, as they are", () => {
    expect(recipeFiles(RECIPE, "/clone", INSTALLED, () => true)).toEqual({ sets: [], lines: [] });
    const { sets } = recipeFiles(RECIPE, "/clone", INSTALLED, (path) => path === "/clone/.venv/bin/python");
    expect(sets).toEqual(["models.smollm2.path=/cache/venv/smol.gguf"]);
    expect(recipeFiles('path = "/models/x"', "/clone", INSTALLED, () => false).sets).toEqual([]);
  });

  it("says what to run when nothing is installed", () => {
    const { sets, lines } = recipeFiles(RECIPE, "/clone", undefined, () => false);
    expect(sets).toEqual([]);
    expect(lines[0]).toContain("cgn demo --prepare");
  });
});
