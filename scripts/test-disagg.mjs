// npm run test:disagg [-- TEXT]: requests that are split into prefill and decode, and legs that fail. Prints the matrix.
import { join } from "node:path";
import { ROOT } from "./node.mjs";
import { runNode } from "./run.mjs";
import { setup } from "./setup.mjs";
import { heedUsage } from "./usage.mjs";

heedUsage("test:disagg");

process.exitCode = await runNode(await setup(), [join(ROOT, "test", "disagg", "main.ts"), ...process.argv.slice(2)]);
