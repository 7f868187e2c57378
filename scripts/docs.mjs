// npm run docs: writes what is generated from the code (config reference, schema, table, metrics, command line).
import { join } from "node:path";
import { ROOT } from "./node.mjs";
import { runNode } from "./run.mjs";
import { setup } from "./setup.mjs";

process.exitCode = await runNode(await setup(), [join(ROOT, "src", "cli", "write-docs.ts"), ...process.argv.slice(2)]);
