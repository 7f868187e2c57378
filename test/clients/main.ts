import { ensureRealEngine } from "../../src/cli/demo/real-engine.ts";
import { cacheDir } from "../../src/cli/places.ts";
import { allCases } from "./all-cases.ts";
import { type Row, runCases } from "./cases.ts";
import { startFleet } from "./fleet.ts";
import { runPython } from "./python.ts";

/** `npm run test:clients [-- WORD]`: real clients against a router before engines of every kind. Prints client × case. */
const word = process.argv[2] ?? "";
const real =
  process.env["CGN_REAL_ENGINE"] === "1"
    ? await ensureRealEngine(cacheDir(process.env), process.env, new AbortController().signal)
    : undefined;
const python = process.env["CGN_CLIENTS_PYTHON"];

const fleet = await startFleet(real);
let rows: Row[];
try {
  rows = await runCases(allCases(fleet).filter((c) => `${c.client} ${c.name} ${c.model}`.includes(word)));
  if (python !== undefined && python !== "") rows.push(...(await runPython(python, fleet)));
} finally {
  await fleet.close();
}

/** A line a case, a letter a model. */
function table(all: readonly Row[]): string {
  const lines: string[] = [];
  for (const client of new Set(all.map((r) => r.client))) {
    lines.push(`\n${client}`);
    const own = all.filter((r) => r.client === client);
    for (const name of new Set(own.map((r) => r.name))) {
      const cells = own.filter((r) => r.name === name).map((r) => `${r.model} ${r.ok ? "ok" : "FAILED"}`);
      lines.push(`  ${name.padEnd(52)} ${cells.join(" · ")}`);
    }
  }
  return lines.join("\n");
}

console.log(table(rows));
const failed = rows.filter((r) => !r.ok);
for (const { client, name, model, said } of failed) console.log(`\nFAILED ${client}: ${name} (${model}): ${said}`);
const left = [real === undefined ? "no real engine" : "", python ? "" : "no Python clients"].filter((w) => w !== "");
if (left.length > 0) console.log(`\nLeft out: ${left.join(", ")}`);
console.log(`\n${rows.length - failed.length} passed, ${failed.length} failed`);
process.exitCode = failed.length > 0 || rows.length === 0 ? 1 : 0;
