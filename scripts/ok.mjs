// npm run ok: one command before a commit. Format, lint, types, unit tests, generated docs up to date.
import { join } from "node:path";
import { ROOT } from "./node.mjs";
import { runNode } from "./run.mjs";
import { setup } from "./setup.mjs";

process.env.INIT_CWD = ROOT;
const node = await setup();
const bin = (...parts) => join(ROOT, "node_modules", ...parts);
const steps = [
  [bin("@biomejs", "biome", "bin", "biome"), "check", "--write", ROOT],
  [bin("typescript", "bin", "tsc"), "-p", ROOT],
  [join(ROOT, "src", "cli", "write-docs.ts"), "--check"],
  [bin("vitest", "vitest.mjs"), "run", "src", "test/architecture.test.ts", "test/docs.test.ts"],
];
for (const step of steps) {
  const code = await runNode(node, step);
  if (code !== 0) process.exit(code);
}
