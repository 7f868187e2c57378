// npm run test:cluster: hosts in network namespaces, cut and powered off under load. Needs Linux, root and etcd. Prints figures as JSON.
import { join } from "node:path";
import { ROOT } from "./node.mjs";
import { runNode } from "./run.mjs";
import { setup } from "./setup.mjs";
import { heedUsage } from "./usage.mjs";

heedUsage("test:cluster");

process.exitCode = await runNode(await setup(), [join(ROOT, "test", "cluster", "main.ts"), ...process.argv.slice(2)]);
