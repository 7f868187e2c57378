// npm run generate: the protobuf code, made anew.
import { rmSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "./node.mjs";
import { setup } from "./setup.mjs";

rmSync(join(ROOT, "src", "wire", "gen"), { recursive: true, force: true });
await setup();
