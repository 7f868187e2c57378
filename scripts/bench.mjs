// npm run bench -- NAME [--json] …: one benchmark of bench/.
import { join } from "node:path";
import { ROOT } from "./node.mjs";
import { runNode } from "./run.mjs";
import { setup } from "./setup.mjs";
import { heedUsage } from "./usage.mjs";

heedUsage("bench");

process.exitCode = await runNode(await setup(), [join(ROOT, "bench", "main.ts"), ...process.argv.slice(2)]);
