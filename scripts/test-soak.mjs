// npm run test:soak [-- MINUTES]: the router under load while its engines are killed. Prints figures as JSON.
import { join } from "node:path";
import { ROOT } from "./node.mjs";
import { runNode } from "./run.mjs";
import { setup } from "./setup.mjs";
import { heedUsage } from "./usage.mjs";

heedUsage("test:soak");

process.exitCode = await runNode(await setup(), [join(ROOT, "test", "soak", "router.ts"), ...process.argv.slice(2)]);
