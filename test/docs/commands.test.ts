import { execFile, execFileSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { blocksOf, pages, ROOT, readPage } from "./markdown.ts";
import { NO_RUN, stepsOf } from "./marks.ts";

/** A network of its own, so that each page has all ports; as root, or with a user namespace. Undefined: not to be had here. */
function ownNetwork(): readonly string[] | undefined {
  for (const how of [
    ["unshare", "--net"],
    ["unshare", "--map-root-user", "--net"],
  ]) {
    try {
      const [command = "", ...args] = how;
      execFileSync(command, [...args, "ip", "link", "set", "lo", "up"], { stdio: "ignore" });
      return [...how, "--kill-child"];
    } catch {
      // The next way.
    }
  }
  return undefined;
}

const STEPS = new Map(pages().map((page) => [page, stepsOf(blocksOf(readPage(page)))]));
/** Its examples are the commands' own: run-examples.ts runs them. */
const REFERENCE = "docs/cli.md";
const RUN = [...STEPS]
  .filter(([page, steps]) => page !== REFERENCE && steps.some(({ type }) => type === "run" || type === "serve"))
  .map(([page]) => page);
const network = ownNetwork();
const must = process.env["CGN_REQUIRE_TOOLS"] === "1";
if (network === undefined) console.log("skipped: the commands of the docs (no network namespaces here)");

/** @throws Error with all that was printed: reports shorten what an assertion compares */
function runScript(name: string, ...of: readonly string[]): Promise<void> {
  const [command = "", ...args] = network ?? [];
  const script = join(import.meta.dirname, name);
  return new Promise((resolve, reject) => {
    const whole = [...args, process.execPath, "--disable-warning=ExperimentalWarning", script, ...of];
    const env = { ...process.env, CGN_PAGE_NETWORK: "own" };
    execFile(command, whole, { cwd: ROOT, env, maxBuffer: 2 ** 24 }, (failed, out, err) =>
      failed === null ? resolve() : reject(new Error(`${err}\n${out}`)),
    );
  });
}

const PATIENCE_MS = 600_000;
vi.setConfig({ maxConcurrency: 2 });

describe.skipIf(network === undefined && !must).concurrent("commands of the docs", () => {
  it.each(RUN)("%s does what it says", { timeout: PATIENCE_MS }, async (page) => {
    await runScript("run-page.ts", page);
  });

  it("each example of docs/cli.md does what it says", { timeout: PATIENCE_MS }, async () => {
    await runScript("run-examples.ts");
  });
});

describe("commands that are not run", () => {
  const skipped = [...STEPS].flatMap(([page, steps]) =>
    steps.flatMap((step) => (step.type === "skip" ? [`${page}:${step.block.line} ${step.reason}`] : [])),
  );

  it("are few, and each says why", () => {
    console.log(["not run:", ...skipped].join("\n  "));
    for (const line of skipped)
      expect(
        NO_RUN.some((reason) => line.split(" ")[1]?.startsWith(reason)),
        line,
      ).toBe(true);
    expect(skipped.length).toBeLessThanOrEqual(30);
  });
});
