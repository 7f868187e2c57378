// npm run conformance [-- OPTIONS]: puts what cgn renders to the engines' own programs, and starts what starts without a GPU.
import { join } from "node:path";
import { ROOT } from "./node.mjs";
import { runNode } from "./run.mjs";
import { setup } from "./setup.mjs";

process.exitCode = await runNode(await setup(), [join(ROOT, "conformance", "main.ts"), ...process.argv.slice(2)]);
