// npm run test:faults [-- TEXT]: engines and clients that fail in every phase, on sockets. Prints the matrix.
import { join } from "node:path";
import { ROOT } from "./node.mjs";
import { runNode } from "./run.mjs";
import { setup } from "./setup.mjs";
import { heedUsage } from "./usage.mjs";

heedUsage("test:faults");

process.exitCode = await runNode(await setup(), [join(ROOT, "test", "faults", "main.ts"), ...process.argv.slice(2)]);
