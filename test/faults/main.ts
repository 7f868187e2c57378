// npm run test:faults [-- TEXT] [--threads N]: the fault matrix, or the cases whose name or phase has TEXT, as a table. Ends with 1 when
// a client saw something else than it should, waited for ever, or anything was left of a case. With N the router has N threads.
import { parseArgs } from "node:util";
import { ALL_CASES } from "./all-cases.ts";
import { type FaultCase, runCase } from "./rig.ts";

const AT_ONCE = 8;
const { values, positionals } = parseArgs({ allowPositionals: true, options: { threads: { type: "string" } } });
const threads = Number(values.threads ?? 0);
const only = positionals[0] ?? "";
const cases = Object.entries(ALL_CASES)
  .flatMap(([phase, of]) => of.map((test) => ({ phase, test })))
  .filter(({ phase, test }) => `${phase} ${test.name}`.includes(only));

interface Row {
  readonly phase: string;
  readonly test: FaultCase;
  readonly ms: number;
  readonly wrong: string | undefined;
}

const rows: (Row | undefined)[] = cases.map(() => undefined);
let next = 0;

async function work(): Promise<void> {
  while (next < cases.length) {
    const at = next++;
    const { phase, test } = cases[at]!;
    const started = performance.now();
    let wrong: string | undefined;
    try {
      await runCase(test, threads);
    } catch (e) {
      wrong = e instanceof Error ? e.message : String(e);
    }
    rows[at] = { phase, test, ms: performance.now() - started, wrong };
  }
}

await Promise.all(Array.from({ length: AT_ONCE }, work));
const done = rows.filter((row) => row !== undefined);
const width = Math.max(...done.map(({ test }) => test.name.length));
const phaseWidth = Math.max(...done.map(({ phase }) => phase.length));
for (const { phase, test, ms, wrong } of done) {
  const said = wrong === undefined ? test.sees : `WRONG: ${wrong.replaceAll("\n", " ").slice(0, 400)}`;
  console.log(
    `${wrong === undefined ? "ok  " : "FAIL"} ${phase.padEnd(phaseWidth)}  ${test.name.padEnd(width)}  ${Math.round(ms).toString().padStart(5)} ms  ${said}`,
  );
}
const failed = done.filter(({ wrong }) => wrong !== undefined).length;
const hung = done.filter(({ wrong }) => wrong?.includes("hung:") === true).length;
console.log(`${done.length} cases, ${failed} wrong, ${hung} hung`);
process.exit(failed > 0 ? 1 : 0);
