// npm run generate: the protobuf code and the WebAssembly, made anew.
import { rmSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "./node.mjs";
import { setup } from "./setup.mjs";

for (const room of ["wire", "kvindex"]) rmSync(join(ROOT, "src", room, "gen"), { recursive: true, force: true });
await setup();
