// npm run test:supervisor -- [--runs 200] [--seed 1]: randomised runs of the supervisor against engines that misbehave.
import { join } from "node:path";
import { ROOT } from "./node.mjs";
import { runNode } from "./run.mjs";
import { setup } from "./setup.mjs";
import { heedUsage } from "./usage.mjs";

heedUsage("test:supervisor");

process.exitCode = await runNode(await setup(), [
  join(ROOT, "test", "soak", "supervisor.ts"),
  ...process.argv.slice(2),
]);
