// npm run parity [-- OPTIONS]: compares the prompts that cgn renders with those of real engines.
import { join } from "node:path";
import { ROOT } from "./node.mjs";
import { runNode } from "./run.mjs";
import { setup } from "./setup.mjs";

process.exitCode = await runNode(await setup(), [
  join(ROOT, "conformance", "parity", "main.ts"),
  ...process.argv.slice(2),
]);
