// npm run test:disagg [-- TEXT]: split requests whose legs fail, or the cases whose name or part has TEXT, as a table. Ends with 1 when
// a client saw something else than it should, waited for ever, or anything was left of a case: a booking, a connection, KV.
import { PAIR_CASES } from "./all-cases.ts";
import { runPairCase } from "./rig.ts";

const AT_ONCE = 8;
const only = process.argv[2] ?? "";
const cases = Object.entries(PAIR_CASES)
  .flatMap(([part, of]) => of.map((test) => ({ part, test })))
  .filter(({ part, test }) => `${part} ${test.name}`.includes(only));
const wrong: (string | undefined)[] = [];
const tookMs: number[] = [];
let next = 0;

async function work(): Promise<void> {
  while (next < cases.length) {
    const at = next++;
    const started = performance.now();
    try {
      await runPairCase(cases[at]!.test);
    } catch (e) {
      wrong[at] = e instanceof Error ? e.message : String(e);
    }
    tookMs[at] = performance.now() - started;
  }
}

await Promise.all(Array.from({ length: AT_ONCE }, work));
const width = Math.max(...cases.map(({ test }) => test.name.length));
const partWidth = Math.max(...cases.map(({ part }) => part.length));
for (const [at, { part, test }] of cases.entries()) {
  const said = wrong[at] === undefined ? test.sees : `WRONG: ${wrong[at].replaceAll("\n", " ").slice(0, 400)}`;
  const ms = Math.round(tookMs[at]!).toString().padStart(6);
  console.log(
    `${wrong[at] === undefined ? "ok  " : "FAIL"} ${part.padEnd(partWidth)}  ${test.name.padEnd(width)} ${ms} ms  ${said}`,
  );
}
const failed = wrong.filter((each) => each !== undefined);
const hung = failed.filter((each) => each.includes("hung:"));
console.log(`${cases.length} cases, ${hung.length} hung`);
console.log(`${cases.length - failed.length} passed, ${failed.length} failed`);
process.exit(failed.length > 0 ? 1 : 0);
