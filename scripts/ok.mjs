// npm run ok: one command before a commit, under a minute. Format and lint first, since they write; then types, generated docs and unit tests side
// by side. Unit tests are those that the changes since the last commit can touch; `-- --all` runs each. Test files share their
// worker's modules, which costs a third of what a world for each costs; `npm test` gives each file its own.
import { spawn } from "node:child_process";
import { join } from "node:path";
import { nodeEnv, ROOT } from "./node.mjs";
import { setup } from "./setup.mjs";

const all = process.argv.includes("--all");
const node = await setup();
const bin = (...parts) => join(ROOT, "node_modules", ...parts);
const vitest = bin("vitest", "vitest.mjs");

const FIRST = { "format and lint": [bin("@biomejs", "biome", "bin", "biome"), "check", "--write", ROOT] };
const THEN = {
  types: [bin("typescript", "bin", "tsc"), "-p", ROOT],
  "generated docs": [join(ROOT, "src", "cli", "write-docs.ts"), "--check"],
  "pages and rooms": [
    vitest,
    "run",
    "--no-isolate",
    "test/architecture.test.ts",
    "test/docs.test.ts",
    "test/docs/pages.test.ts",
    "test/docs/changelog.test.ts",
  ],
  "unit tests": [
    vitest,
    "run",
    "--no-isolate",
    "--project",
    "units",
    ...(all ? [] : ["--changed", "HEAD", "--passWithNoTests"]),
  ],
};

/** Runs a step; what it says is shown when it fails. */
function run(name, args) {
  const began = performance.now();
  return new Promise((resolve) => {
    const child = spawn(node, ["--disable-warning=ExperimentalWarning", ...args], { cwd: ROOT, env: nodeEnv(node) });
    let said = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (said += chunk));
    child.on("close", (code) => {
      if (code !== 0) process.stdout.write(said);
      console.log(`${code === 0 ? "ok    " : "NOT OK"} ${name}, ${((performance.now() - began) / 1000).toFixed(1)} s`);
      resolve(code === 0);
    });
  });
}

const started = performance.now();
const runAll = (steps) => Promise.all(Object.entries(steps).map(([name, args]) => run(name, args)));
const fine = [...(await runAll(FIRST)), ...(await runAll(THEN))];
console.log(`${((performance.now() - started) / 1000).toFixed(0)} s in all`);
process.exitCode = fine.every(Boolean) ? 0 : 1;
