// npm run build: the published package's JavaScript, in dist/.
import { chmodSync, rmSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "./node.mjs";
import { runNode } from "./run.mjs";
import { setup } from "./setup.mjs";

process.env.INIT_CWD = ROOT;
const node = await setup();
rmSync(join(ROOT, "dist"), { recursive: true, force: true });
const code = await runNode(node, [
  join(ROOT, "node_modules", "typescript", "bin", "tsc"),
  "-p",
  join(ROOT, "tsconfig.build.json"),
]);
if (code !== 0) process.exit(code);
for (const name of ["cgn", "cgn-agent", "cgn-router", "cgn-kvcached"])
  chmodSync(join(ROOT, "dist", "cli", "bin", `${name}.js`), 0o755);
