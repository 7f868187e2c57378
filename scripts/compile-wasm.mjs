// Compiles the prefix index's core, src/kvindex/wasm (AssemblyScript), to a module that holds the WebAssembly as text:
// pure TypeScript, which every bundler and test runner takes. The set-up runs it when a source has changed.
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import asc from "assemblyscript/asc";
import binaryen from "assemblyscript/binaryen";
import { ROOT } from "./node.mjs";

const OUT = join(ROOT, "src", "kvindex", "gen", "core-wasm.ts");
const OPTIONS = [
  ["--runtime", "stub", "--noAssert", "-O3", "--converge"],
  ["--enable", "simd", "--enable", "bulk-memory", "--enable", "threads"],
  // Shared memory is not counted as the JavaScript heap's: growing other memory makes V8 collect garbage, all at once.
  ["--sharedMemory", "--importMemory", "--noExportMemory", "--initialMemory", "64", "--maximumMemory", "65536"],
].flat();

let binary;
const { error, stderr } = await asc.main(
  ["main.ts", "--baseDir", join(ROOT, "src", "kvindex", "wasm"), "--outFile", "core.wasm", ...OPTIONS],
  {
    writeFile: (_name, contents) => {
      binary = contents;
    },
  },
);
if (error !== null || binary === undefined) {
  process.stderr.write(`Cannot compile src/kvindex/wasm: ${error?.message}\n${stderr}`);
  process.exit(1);
}
const bridge = binaryen.parseText(readFileSync(join(ROOT, "src", "kvindex", "wasm", "bridge.wat"), "utf8"));
const [core, copier] = [binary, bridge.emitBinary()].map((bytes) => Buffer.from(bytes).toString("base64"));
mkdirSync(dirname(OUT), { recursive: true });
const beside = `${OUT}.${process.pid}`;
writeFileSync(
  beside,
  `// Made from src/kvindex/wasm by \`npm run generate\`.\nexport const CORE_WASM =\n  "${core}";\nexport const BRIDGE_WASM =\n  "${copier}";\n`,
);
renameSync(beside, OUT);
