// npm test: set-up where it is missing (Python packages too, where there is Python), then all tests that a fresh machine
// can run in minutes. Ends with the plain line `N passed, N failed[, N skipped]`.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { CACHE, ROOT } from "./node.mjs";
import { CLI, runNode } from "./run.mjs";
import { setup } from "./setup.mjs";

process.env.INIT_CWD = ROOT;
const only = process.argv.slice(2);
try {
  const node = await setup();
  const types = await runNode(node, [join(ROOT, "node_modules", "typescript", "bin", "tsc"), "-p", ROOT]);
  const real = await runNode(node, [CLI, "demo", "--prepare"]);
  if (real !== 0) {
    const must = process.env.CGN_REQUIRE_PYTHON === "1";
    console.error(
      `cgn: the real llama.cpp server is not to be had here${must ? ", and it must be" : ": its tests are skipped"}`,
    );
    if (must) process.exit(1);
  }
  const report = join(CACHE, "test-report.json");
  const code = await runNode(
    node,
    [
      join(ROOT, "node_modules", "vitest", "vitest.mjs"),
      "run",
      "--reporter=default",
      "--reporter=json",
      `--outputFile.json=${report}`,
      ...only,
    ],
    { CGN_REAL_ENGINE: real === 0 ? "1" : "0" },
  );
  const { numPassedTests, numFailedTests, numPendingTests, numTodoTests, testResults } = JSON.parse(
    readFileSync(report, "utf8"),
  );
  // A file that fails to load has no test of its own to fail, and types that do not hold are a failure too.
  const broken = testResults.filter(
    (file) => file.status === "failed" && file.assertionResults.every((a) => a.status !== "failed"),
  ).length;
  const failed = numFailedTests + broken + (types === 0 ? 0 : 1);
  const skipped = numPendingTests + numTodoTests;
  console.log(`${numPassedTests} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`);
  process.exitCode = failed > 0 ? 1 : code;
} catch (e) {
  console.error(`cgn: the tests could not be run: ${e.message}`);
  console.log("0 passed, 1 failed");
  process.exitCode = 1;
}
