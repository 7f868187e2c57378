// npm run golden: rewrites the golden launch commands, to be read in review.
import { join } from "node:path";
import { ROOT } from "./node.mjs";
import { runNode } from "./run.mjs";
import { setup } from "./setup.mjs";

process.env.INIT_CWD = ROOT;
process.exitCode = await runNode(
  await setup(),
  [join(ROOT, "node_modules", "vitest", "vitest.mjs"), "run", "src/engines"],
  { GOLDEN: "1" },
);
