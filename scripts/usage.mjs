// What the checks and benchmarks take and how long they run (two cores, little else to do): `-- --help` prints it before anything is set up,
// and an option that is none is refused by name. Plain JavaScript that Node 18 can run.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "./node.mjs";

const TEXT_OF_CASES = "TEXT: only the cases whose name or part has it";

/** By the script's name in package.json. In `takes` an option with a word behind it has a value. */
export const USAGES = {
  "test:clients": {
    takes: "[WORD]",
    does: "real clients (SDKs in Node and Python, curl) against a router before engines of every kind, as a table",
    notes: ["WORD: only the cases of Node and curl whose client, name or model has it"],
    time: "3 minutes; the first time it also installs a real engine and the Python clients",
  },
  "test:cluster": {
    takes: "[WORD...]",
    does: "hosts in network namespaces, cut and powered off under load; needs Linux, root and etcd",
    notes: ["WORD: only the cases whose name has one of them"],
    time: "3 minutes",
  },
  "test:swap": {
    takes: "[SECONDS]",
    does: "two models on one GPU set, asked in turn by 20 clients; prints JSON",
    notes: ["SECONDS: of each of the three kinds of engines (60)"],
    time: "4 minutes",
  },
  "test:faults": {
    takes: "[TEXT] [--threads N]",
    does: "engines and clients that fail in every phase, on sockets, as a table",
    notes: [TEXT_OF_CASES, "--threads N: a router of so many threads"],
    time: "15 seconds",
  },
  "test:disagg": {
    takes: "[TEXT]",
    does: "requests split into prefill and decode, and legs that fail, as a table",
    notes: [TEXT_OF_CASES],
    time: "half a minute",
  },
  "test:soak": {
    takes: "[MINUTES] [--seed N]",
    does: "a router at half of what its engines can do while these are killed at random; every word is compared; prints JSON",
    notes: ["MINUTES: how long (20); 0.5 is enough to see it work"],
    time: "20 minutes, or as many as you say",
  },
  "test:first-run": {
    takes: "[--sim] [--keep]",
    does: "a newcomer's first minutes on a clone with empty caches, up to a chat in Chromium",
    notes: [
      "--sim: simulated engines, nothing is downloaded for them",
      "--keep: the clone stays, and its path is printed",
    ],
    time: "2 minutes",
  },
  "test:web": {
    takes: "",
    does: "the dashboard in headless Chromium, with pictures in .cache/screens",
    notes: [],
    time: "2 minutes",
  },
  "test:pack": {
    takes: "[--short]",
    does: "what npm pack makes, installed in an empty folder and run; prints JSON",
    notes: ["--short: installs nothing"],
    time: "2 minutes",
  },
  "test:supervisor": {
    takes: "[--runs N] [--seed N] [--parallel N] [--ms N]",
    does: "random runs of the supervisor against real processes that misbehave; prints JSON",
    notes: ["--runs N: how many (200), --parallel N at a time (4), --ms N milliseconds each (3000)"],
    time: "3 minutes",
  },
  "test:binary": {
    takes: "",
    does: "the single program of this host, built and run in an empty folder; prints JSON",
    notes: [],
    time: "2 minutes",
  },
  bench: {
    takes:
      "NAME [--json] [--quick] [--count N] [--seed N] [--ops N] [--rounds N] [--frames N] [--only WHAT] [--trace FILE] [--runs FILE] [--against NAME=URL,PID]",
    does: "one benchmark; docs/benchmarks.md says where its figures stand, and bench/NAME.ts which options it heeds",
    notes: [],
    time: "seconds to hours, see the list",
  },
};

/** @returns the text that `--help` prints */
export function usageText(name) {
  const { takes, does, notes, time } = USAGES[name];
  const lines = [`npm run ${name}${takes === "" ? "" : ` -- ${takes}`}`, "", does, ...notes.map((note) => `  ${note}`)];
  lines.push(`Takes ${time}.`);
  if (name === "bench") lines.push("", ...benchmarks());
  return `${lines.join("\n")}\n`;
}

/** Names, what they measure and how long that takes, as docs/benchmarks.md has them. */
export function benchmarks() {
  const page = readFileSync(join(ROOT, "docs", "benchmarks.md"), "utf8");
  const rows = [...page.matchAll(/^\| `([a-z-]+)` \| (.+) \| (.+) \|$/gm)];
  const width = Math.max(...rows.map(([, name]) => name.length));
  return rows.map(([, name, what, time]) => `${name.padEnd(width)}  ${what.replaceAll("`", "")} (${time})`);
}

/** What is wrong with arguments; undefined where nothing is. */
export function argumentProblem(name, args) {
  const { takes } = USAGES[name];
  const valued = new Map([...takes.matchAll(/\[(--[a-z-]+)( [A-Z])?/g)].map(([, option, value]) => [option, value]));
  for (let i = 0; i < args.length; i++) {
    const [option, value] = args[i].split("=", 2);
    if (!option.startsWith("-")) {
      if (/^\[(?:MINUTES|SECONDS)\]/.test(takes) && !(Number(args[i]) > 0)) return `"${args[i]}" is no number of them`;
      if (/^\[?[A-Z]/.test(takes)) continue;
      return `it takes no "${args[i]}"`;
    }
    if (!valued.has(option)) return `there is no option "${option}"`;
    if (valued.get(option) === undefined || value !== undefined) continue;
    if (args[i + 1] === undefined || args[i + 1].startsWith("--")) return `${option} has no value`;
    i++;
  }
  return undefined;
}

/** Ends the process with the usage where it is asked for (0) or an argument is wrong (2). To be called before anything else is done. */
export function heedUsage(name, args = process.argv.slice(2)) {
  if (args.includes("--help") || args.includes("-h")) {
    process.stdout.write(usageText(name));
    process.exit(0);
  }
  const problem = argumentProblem(name, args) ?? (name === "bench" ? nameProblem(args) : undefined);
  if (problem === undefined) return;
  process.stderr.write(`Cannot run ${name}: ${problem}. What there is:\n\n${usageText(name)}`);
  process.exit(2);
}

function nameProblem(args) {
  const name = args.find((arg, i) => !arg.startsWith("-") && !/^--(?!json|quick)[a-z]+$/.test(args[i - 1] ?? ""));
  if (name === undefined) return "no benchmark is named";
  const known = benchmarks().map((line) => line.split(" ", 1)[0]);
  return known.includes(name) ? undefined : `there is no benchmark "${name}"`;
}
