// npm run test:web: the dashboard in headless Chromium, with pictures in .cache/screens.
import { join } from "node:path";
import { ROOT } from "./node.mjs";
import { runNode } from "./run.mjs";
import { setup } from "./setup.mjs";
import { heedUsage } from "./usage.mjs";

heedUsage("test:web");

process.exitCode = await runNode(await setup(), [join(ROOT, "test", "web", "main.ts"), ...process.argv.slice(2)]);
