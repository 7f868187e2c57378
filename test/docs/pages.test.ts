import { existsSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, it } from "vitest";
import { COMMANDS } from "../../src/cli/commands.ts";
import { GENERATED } from "../../src/cli/generated-docs.ts";
import { configJsonSchema } from "../../src/config/json-schema.ts";
import { parseToml } from "../../src/config/toml.ts";
import { METRICS } from "../../src/telemetry/metric-table.ts";
import { wrongCommands } from "./command-lines.ts";
import { unknownKeys } from "./config-keys.ts";
import { anchorsOf, linksOf } from "./links.ts";
import { blocksOf, pages, proseOf, ROOT, readPage, spansOf } from "./markdown.ts";
import { misspelt } from "./names.ts";

const PAGES = pages();
/** Pages that are printed from tables have keys' names in their prose. */
const BY_HAND = PAGES.filter((page) => ![...GENERATED.map(({ path }) => path), "docs/verified.md"].includes(page));
const validate = new Ajv2020({ strict: false, allErrors: true }).compile(configJsonSchema());
/** What Prometheus makes of a histogram or counter. */
const METRIC = /^(cgn_[a-z_]+?)(?:_bucket|_sum|_count)?(?:\{.*\})?$/;

function deadLinks(page: string): string[] {
  return linksOf(readPage(page)).flatMap(({ target, line }) => {
    if (/^https?:\/\//.test(target)) return URL.canParse(target) ? [] : [`${page}:${line}: ${target} is no address`];
    const [path = "", anchor] = target.split("#");
    const file = path === "" ? page : normalize(join(dirname(page), path));
    if (!existsSync(join(ROOT, file))) return [`${page}:${line}: there is no ${file}`];
    if (anchor === undefined || !file.endsWith(".md")) return [];
    return anchorsOf(readPage(file)).has(anchor) ? [] : [`${page}:${line}: ${file} has no #${anchor}`];
  });
}

function wrongToml(page: string): string[] {
  return blocksOf(readPage(page))
    .filter(({ lang, marks }) => lang === "toml" && marks !== "other")
    .flatMap(({ text, line }) => {
      validate(parseToml(text, `${page}:${line}`).value);
      return (validate.errors ?? []).map(
        (e) => `${page}:${line}: ${e.instancePath} ${e.message} ${JSON.stringify(e.params)}`,
      );
    });
}

describe("each page of the docs", () => {
  it.each(PAGES)("%s has no dead link", (page) => {
    expect(deadLinks(page)).toEqual([]);
  });

  it.each(PAGES)("%s names commands and options that exist", (page) => {
    expect(wrongCommands(readPage(page), COMMANDS)).toEqual([]);
  });

  it.each(PAGES)("%s shows TOML that fits the configuration's schema", (page) => {
    expect(wrongToml(page)).toEqual([]);
  });

  it.each(PAGES)("%s names keys of the configuration that exist", (page) => {
    expect(unknownKeys(readPage(page), readPage("docs/configuration.md"))).toEqual([]);
  });

  it.each(PAGES)("%s names metrics that exist", (page) => {
    const named = spansOf(readPage(page)).flatMap((span) => METRIC.exec(span)?.[1] ?? []);
    expect(named.filter((name) => !(name in METRICS))).toEqual([]);
  });

  it.each(BY_HAND)("%s spells names as their owners do", (page) => {
    expect(misspelt(proseOf(readPage(page)))).toEqual([]);
  });

  it.each(PAGES)("%s has commands in fenced blocks only, where they are run", (page) => {
    const loose = proseOf(readPage(page))
      .split("\n")
      .flatMap((line, n) =>
        /^ {4,}(?:\.\/cgn|cgn|npm|npx|curl|docker|kubectl|helm) /.test(line) ? [`${page}:${n + 1}`] : [],
      );
    expect(loose).toEqual([]);
    const unnamed = blocksOf(readPage(page)).filter(({ lang }) => lang === "" || lang === "bash" || lang === "shell");
    expect(unnamed.map(({ line }) => `${page}:${line}`)).toEqual([]);
  });
});

describe("docs/", () => {
  it("has no page that no other page leads to", () => {
    const reached = new Set(["README.md"]);
    const todo = ["README.md"];
    for (let page = todo.pop(); page !== undefined; page = todo.pop()) {
      for (const { target } of linksOf(readPage(page))) {
        const file = normalize(join(dirname(page), target.split("#")[0] ?? ""));
        if (!PAGES.includes(file) || reached.has(file)) continue;
        reached.add(file);
        todo.push(file);
      }
    }
    expect(PAGES.filter((page) => !reached.has(page))).toEqual([]);
  });
});
