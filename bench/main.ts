import { existsSync } from "node:fs";
import { parseArgs } from "node:util";

// npm run bench -- NAME [--json] [--against NAME=URL,PID …] [--frames N] [--quick] [--trace FILE] [--ops N] [--only WHAT …] [--rounds N] [--runs FILE] [--count N] [--seed N]: one benchmark, which is the module of its name beside this file.
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    json: { type: "boolean", default: false },
    against: { type: "string", multiple: true, default: [] },
    frames: { type: "string" },
    quick: { type: "boolean", default: false },
    trace: { type: "string" },
    ops: { type: "string" },
    only: { type: "string", multiple: true, default: [] },
    rounds: { type: "string" },
    runs: { type: "string" },
    count: { type: "string" },
    seed: { type: "string" },
  },
});
const [name = ""] = positionals;
const file = new URL(`./${name}.ts`, import.meta.url);
if (!/^[a-z-]+$/.test(name) || name === "main" || name === "result" || !existsSync(file)) {
  process.stderr.write(
    `Cannot run benchmark "${name}": there is none of this name. Try npm run bench -- proxy --json\n`,
  );
  process.exit(2);
}
const { run } = (await import(file.href)) as { run(options: typeof values): Promise<unknown> };
await run(values);
