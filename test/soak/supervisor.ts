// npm run test:supervisor [-- --runs 200] [--seed 1] [--parallel 4] [--ms 3000]: randomised runs of the supervisor against real
// processes that misbehave (src/process/testing/wild-run.ts). Ends with 1 when a promise was broken; the seeds are printed.
import { parseArgs } from "node:util";
import { runWild, type WildRun } from "../../src/process/testing/wild-run.ts";

const { values } = parseArgs({
  options: {
    runs: { type: "string", default: "200" },
    seed: { type: "string", default: "1" },
    parallel: { type: "string", default: "4" },
    ms: { type: "string", default: "3000" },
  },
});
const [runs, first, parallel, ms] = [values.runs, values.seed, values.parallel, values.ms].map(Number) as [
  number,
  number,
  number,
  number,
];
const startedMs = performance.now();
const done: WildRun[] = [];
let next = 0;

async function work(): Promise<void> {
  while (next < runs) {
    const run = await runWild(first + next++, ms);
    done.push(run);
    for (const each of run.violations) process.stderr.write(`seed ${run.seed}: ${each}\n`);
    if (done.length % 10 === 0) process.stderr.write(`${done.length} of ${runs} runs\n`);
  }
}

await Promise.all(Array.from({ length: parallel }, work));
const sum = (of: (run: WildRun) => number): number => done.reduce((total, run) => total + of(run), 0);
process.stdout.write(
  `${JSON.stringify({
    runs: done.length,
    firstSeed: first,
    broken: done.filter(({ violations }) => violations.length > 0).map(({ seed }) => seed),
    starts: sum(({ starts }) => starts),
    handovers: sum(({ handovers }) => handovers),
    admissions: sum(({ admissions }) => admissions),
    requests: sum(({ requests }) => requests),
    seconds: Math.round((performance.now() - startedMs) / 1_000),
  })}\n`,
);
process.exit(done.some(({ violations }) => violations.length > 0) ? 1 : 0);
