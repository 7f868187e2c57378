// npm run test:swap [SECONDS]: two models on one GPU set, asked in turn by 20 clients. Prints figures as JSON.
import { join } from "node:path";
import { ROOT } from "./node.mjs";
import { CLI, runNode } from "./run.mjs";
import { setup } from "./setup.mjs";
import { heedUsage } from "./usage.mjs";

heedUsage("test:swap");

const node = await setup();
const real = await runNode(node, [CLI, "demo", "--prepare"]);
process.exitCode = await runNode(node, [join(ROOT, "test", "swap", "main.ts"), ...process.argv.slice(2)], {
  CGN_REAL_ENGINE: real === 0 ? "1" : "0",
});
