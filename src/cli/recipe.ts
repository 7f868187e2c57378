import { readFileSync } from "node:fs";
import { CgnError } from "../core/errors.ts";
import type { Command } from "./command.ts";
import { installedEngine } from "./demo/real-engine.ts";
import { cacheDir } from "./places.ts";
import { recipeFiles } from "./recipe-files.ts";
import { findRecipe, listRecipes } from "./recipes.ts";
import { upCommand } from "./up.ts";

const NAME = {
  name: "RECIPE",
  about: "its name, or parts of it that only one has (llama-3.1-8b/hicache-both)",
  required: true,
};

/** `cgn recipe list`: the files that come with cgn. */
export const recipeListCommand: Command = {
  name: "recipe list",
  about: "list the configurations that come with cgn",
  examples: ["cgn recipe list", "cgn recipe list qwen3 nixl", "cgn recipe list --json"],
  positionals: [{ name: "WORDS", about: "only those with all of these words", required: false, variadic: true }],
  options: { json: { type: "boolean", about: "print them as JSON, with their paths" } },
  async run({ options, positionals }, cli) {
    const words = positionals.map((word) => word.toLowerCase());
    const found = listRecipes().filter(({ name, about }) =>
      words.every((word) => `${name} ${about}`.toLowerCase().includes(word)),
    );
    if (options["json"] === true) {
      cli.out(JSON.stringify(found, undefined, 2));
      return 0;
    }
    if (found.length === 0) {
      throw new CgnError("BAD_INVOCATION", `No recipe has ${words.join(" and ")}. cgn recipe list shows all`, {
        words,
      });
    }
    for (const { name, about } of found) cli.out(`${name}\n    ${about}`);
    return 0;
  },
};

/** `cgn recipe show`: a file to copy. */
export const recipeShowCommand: Command = {
  name: "recipe show",
  about: "print a recipe, to save and change",
  examples: ["cgn recipe show qwen3-8b/vllm/lmcache-both > cgn.toml"],
  positionals: [NAME],
  options: {},
  async run({ positionals }, cli) {
    cli.out(readFileSync(findRecipe(positionals[0]!).path, "utf8").trimEnd());
    return 0;
  },
};

const { config: _file, ...UP_OPTIONS } = upCommand.options;

/** `cgn recipe up`: run one as it is. */
export const recipeUpCommand: Command = {
  name: "recipe up",
  about: "run a recipe: the same as cgn up with its file",
  examples: [
    "cgn recipe up qwen3-8b/vllm/none-both",
    `cgn recipe up gpt-oss-20b/vllm --listen 127.0.0.1:8080 --set 'models."openai/gpt-oss-20b".max_model_len=8192'`,
  ],
  positionals: [NAME],
  options: UP_OPTIONS,
  async run({ options, positionals }, cli) {
    const recipe = findRecipe(positionals[0]!);
    cli.err(`Recipe ${recipe.name}: ${recipe.about}`);
    const files = recipeFiles(readFileSync(recipe.path, "utf8"), cli.cwd, installedEngine(cacheDir(cli.env)));
    for (const line of files.lines) cli.err(line);
    // What a person sets wins: it comes later.
    const set = [...files.sets, ...(Array.isArray(options["set"]) ? (options["set"] as readonly string[]) : [])];
    return upCommand.run({ options: { ...options, set, config: recipe.path }, positionals: [] }, cli);
  },
};
