// npm run demo: set-up where it is missing, then `cgn demo`.
import { CLI, runNode } from "./run.mjs";
import { setup } from "./setup.mjs";

try {
  const node = await setup();
  process.exitCode = await runNode(node, [CLI, "demo", ...process.argv.slice(2)]);
} catch (e) {
  console.error(`cgn: the set-up failed: ${e.message}`);
  process.exitCode = 4;
}
