import { ensureRealEngine } from "../../src/cli/demo/real-engine.ts";
import { cacheDir } from "../../src/cli/places.ts";
import { type AlternateFigures, type AlternateOptions, alternate } from "./alternate.ts";

/** `npm run test:swap [SECONDS]`: the whole minute, with simulated engines that start, with ones that sleep, and with llama-servers. */
const seconds = Number(process.argv[2] ?? 60);
const runs: [string, AlternateOptions][] = [
  ["start and stop", { seconds, clients: 20, minResidencyS: 3, loadS: 1.5 }],
  ["sleep", { seconds: Math.min(seconds, 30), clients: 20, minResidencyS: 2, loadS: 1.5, sleep: 1 }],
];
if (process.env["CGN_REAL_ENGINE"] === "1") {
  const engine = await ensureRealEngine(cacheDir(process.env), process.env, new AbortController().signal);
  runs.push(["llama-server", { seconds: Math.min(seconds, 30), clients: 8, minResidencyS: 3, engine }]);
}

const isWell = (f: AlternateFigures): boolean =>
  f.failures.length === 0 && f.cut === 0 && f.overlaps === 0 && f.loads > 1 && f.loads <= f.mostLoads;

let failed = 0;
for (const [name, options] of runs) {
  const figures = await alternate(options);
  if (!isWell(figures)) failed++;
  console.log(JSON.stringify({ name, ...options, engine: undefined, ...figures }));
}
console.log(`${runs.length - failed} passed, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;
