import { readdirSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { describe, expect, it } from "vitest";

const SRC = join(import.meta.dirname, "..", "src");

/** A file may import its own folder, or any folder on a line above its own. docs/architecture.md draws the same list. */
const TIERS = [
  ["core"],
  [
    "engines",
    "http",
    "kvindex",
    "prompt",
    "routing",
    "process",
    "cluster",
    "telemetry",
    "wire",
    "modelfiles",
    "access",
    "web",
  ],
  ["config"],
  ["agent", "kvcached", "router", "sim"],
  ["cli"],
];

/** No I/O, clock, randomness or environment: these run unchanged inside the simulator. */
const PURE =
  /^(core|engines|kvindex|prompt|routing|sim\/model)\/|^process\/lifecycle\.ts$|^process\/host\/([\w-]+-)?findings\.ts$|^config\/checks\/|^kvcached\/source-state\.ts$/;
const IMPURE =
  /from "node:|\bDate\.now\(|\bMath\.random\(|\bprocess\.(?!ts)|\bsetTimeout\(|\bsetInterval\(|\bperformance\.now\(/;

/** Runs in browsers: nothing from outside its folder but the one library. */
const BROWSER = /^web\/page\//;

/** Type-only imports count: a type cycle is a design cycle. */
const IMPORT = /(?:from|import)\s*\(?\s*"(\.[^"]+)"/g;
const MAX_LINES = 400;

const folder = (path: string): string => path.split("/")[0] ?? "";
const tier = (path: string): number => TIERS.findIndex((folders) => folders.includes(folder(path)));
/** "engines/vllm/vllm.ts" -> "vllm"; "engines/registry.ts" -> undefined. */
const variant = (path: string): string | undefined => /^engines\/([^/]+)\//.exec(path)?.[1];
const isTest = (path: string): boolean => /\.(test|case)\.ts$|\/testing\//.test(path);
/** Comments may speak of the clock; only code counts. */
const code = (text: string): string => text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/(^|\s)\/\/.*$/gm, "$1");

function importProblems(path: string, text: string): string[] {
  const found: string[] = [];
  for (const [, specifier = ""] of text.matchAll(IMPORT)) {
    const target = posix.join(posix.dirname(path), specifier);
    if (target.startsWith("..")) {
      if (!isTest(path)) found.push(`${path} -> ${target}: leaves src`);
      continue;
    }
    if (tier(path) < 0 || tier(target) < 0) found.push(`${path} -> ${target}: folder has no tier`);
    else if (folder(path) !== folder(target) && tier(path) <= tier(target)) {
      found.push(`${path} -> ${target}: imports sideways or up`);
    }
    if (BROWSER.test(path) && !BROWSER.test(target)) found.push(`${path} -> ${target}: browsers cannot load it`);
    const engine = variant(target);
    // Only the registry knows that vllm exists; vllm and sglang do not know each other.
    if (engine && engine !== variant(path) && path !== "engines/registry.ts") {
      found.push(`${path} -> ${target}: reaches into an engine`);
    }
  }
  return found;
}

/** One line per broken rule. `files` maps a path under src/ to its text. */
function violations(files: ReadonlyMap<string, string>): string[] {
  const found: string[] = [];
  for (const [path, text] of files) {
    if (PURE.test(path) && !isTest(path) && IMPURE.test(code(text))) found.push(`${path} is not pure`);
    found.push(...importProblems(path, text));
    if (BROWSER.test(path) && !isTest(path) && /from "(?!\.|preact")/.test(text))
      found.push(`${path}: browsers cannot load that`);
    if (!isTest(path) && text.split("\n").length - 1 > MAX_LINES) found.push(`${path} has over ${MAX_LINES} lines`);
    if (/^export default\b/m.test(text)) found.push(`${path} has a default export`);
    if (posix.basename(path) === "index.ts" && path !== "index.ts")
      found.push(`${path}: no index.ts but the package entry`);
    if (posix.basename(path) === "utils.ts") found.push(`${path}: say what it is instead of utils`);
  }
  return found;
}

function sources(): Map<string, string> {
  const files = new Map<string, string>();
  for (const entry of readdirSync(SRC, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || !entry.name.endsWith(".ts")) continue;
    const path = posix.relative(SRC, posix.join(entry.parentPath, entry.name));
    if (!/^(wire|kvindex)\/gen\//.test(path)) files.set(path, readFileSync(join(SRC, path), "utf8"));
  }
  return files;
}

describe("architecture", () => {
  it("violations() names each broken rule once", () => {
    const files = new Map([
      ["core/score.ts", `import { pick } from "../router/pick.ts";\nconst t = Date.now();`],
      ["router/pick.ts", `import type { V } from "../engines/vllm/vllm.ts";`],
      ["engines/registry.ts", `import { vllm } from "./vllm/vllm.ts";`],
      ["engines/vllm/vllm.ts", `import { score } from "../../core/score.ts";`],
      ["agent/index.ts", "export default 1;\n".padEnd(500, "\n")],
      ["web/page/app.ts", `import { x } from "../page-html.ts";\nimport { y } from "uplot";`],
    ]);
    expect(violations(files)).toEqual([
      "core/score.ts is not pure",
      "core/score.ts -> router/pick.ts: imports sideways or up",
      "router/pick.ts -> engines/vllm/vllm.ts: reaches into an engine",
      "agent/index.ts has over 400 lines",
      "agent/index.ts has a default export",
      "agent/index.ts: no index.ts but the package entry",
      "web/page/app.ts -> web/page-html.ts: browsers cannot load it",
      "web/page/app.ts: browsers cannot load that",
    ]);
  });

  it("src keeps its rules", () => {
    const files = sources();
    expect(files.size).toBeGreaterThan(10);
    expect(violations(files)).toEqual([]);
  });

  it("docs/architecture.md draws every room", () => {
    const text = readFileSync(join(SRC, "..", "docs", "architecture.md"), "utf8");
    for (const room of TIERS.flat()) expect(text, room).toContain(`\`${room}/\``);
  });
});
