import { execFile } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { blocksOf, ROOT, readPage } from "./markdown.ts";

const run = promisify(execFile);
const PATIENCE_MS = 240_000;
const BLOCKS = blocksOf(readPage("docs/adding-an-engine.md"));
const NODE = [process.execPath, "--disable-warning=ExperimentalWarning"] as const;

/** Red until the kind's real program has taken its command: `npm run conformance`. The page says so. */
const UNPROVED = "tableRows() tells a proof for every cell that spawns something";

interface Report {
  readonly testResults: readonly {
    readonly assertionResults: readonly { readonly title: string; readonly status: string }[];
  }[];
}

/** A copy of what an engine is made of; packages stay where they are. */
function copySources(): string {
  const copy = mkdtempSync(join(tmpdir(), "cgn-engine-"));
  for (const name of ["src", "launchers", "package.json", "tsconfig.json", "vitest.config.ts"])
    cpSync(join(ROOT, name), join(copy, name), { recursive: true });
  symlinkSync(join(ROOT, "node_modules"), join(copy, "node_modules"));
  return copy;
}

async function inCopy(copy: string, args: readonly string[]): Promise<string> {
  try {
    const [command, ...first] = NODE;
    // Vitest must not take this one's settings for its own.
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("VITEST")));
    const { stdout, stderr } = await run(command, [...first, ...args], { cwd: copy, env, maxBuffer: 2 ** 24 });
    return stdout + stderr;
  } catch (e) {
    const { stdout = "", stderr = "" } = e as { stdout?: string; stderr?: string };
    throw new Error(`${args.join(" ")}\n${stdout}${stderr}`);
  }
}

describe("docs/adding-an-engine.md, done in a copy of the sources", () => {
  let copy: string;
  beforeAll(async () => {
    copy = copySources();
    for (const { lang, text } of BLOCKS) {
      const name = lang === "ts" ? /^\/\/ (src\/\S+)\n/.exec(text)?.[1] : undefined;
      if (name === undefined) continue;
      mkdirSync(dirname(join(copy, name)), { recursive: true });
      writeFileSync(join(copy, name), `${text.replace(/^.*\n/, "")}\n`);
    }
    const lines = BLOCKS.find(({ lang, text }) => lang === "sh" && text.startsWith("sed "));
    await run("bash", ["-ec", lines?.text ?? "false"], { cwd: copy });
  });
  afterAll(() => rmSync(copy, { recursive: true, force: true }));

  it(
    "has no other place that must know the kind: the compiler finds nothing",
    async () => {
      writeFileSync(
        join(copy, "tsconfig.check.json"),
        '{"extends":"./tsconfig.json","include":["src/engines","src/cli/bin"]}',
      );
      const tsc = join(ROOT, "node_modules", "typescript", "bin", "tsc");
      expect(await inCopy(copy, [tsc, "-p", "tsconfig.check.json", "--noEmit"])).toBe("");
    },
    PATIENCE_MS,
  );

  it(
    "passes the tests that it brings, and lacks a proof only",
    async () => {
      const vitest = join(ROOT, "node_modules", "vitest", "vitest.mjs");
      const files = ["src/engines/lmdeploy", "src/engines/table.test.ts"];
      // It ends with 1 for the one that is red.
      await inCopy(copy, [vitest, "run", "--reporter=json", "--outputFile=report.json", ...files]).catch(() => "");
      const report = JSON.parse(readFileSync(join(copy, "report.json"), "utf8")) as Report;
      const results = report.testResults.flatMap(({ assertionResults }) => assertionResults);
      expect(results.length).toBeGreaterThan(20);
      expect(results.filter(({ status }) => status === "failed").map(({ title }) => title)).toEqual([UNPROVED]);
    },
    PATIENCE_MS,
  );

  it(
    "is in the table, and renders from a file",
    async () => {
      const cgn = join(copy, "src", "cli", "bin", "cgn.ts");
      expect(await inCopy(copy, [cgn, "table", "--kind", "lmdeploy"])).toMatch(/lmdeploy\s+none\s+both\s+yes/);
      const file = join(copy, "cgn.toml");
      writeFileSync(
        file,
        '[models."internlm/internlm3-8b-instruct"]\nmax_model_len = 8192\n\n[engine]\nkind = "lmdeploy"\n',
      );
      expect(await inCopy(copy, [cgn, "render", "--config", file])).toContain(
        "lmdeploy serve api_server internlm/internlm3-8b-instruct",
      );
    },
    PATIENCE_MS,
  );
});
