import { writeFileSync } from "node:fs";
import { isAbsolute, resolve } from "node:path";
import { CgnError } from "../core/errors.ts";
import { parseKvOffload } from "../core/kv-offload.ts";
import { POLICY_NAMES } from "../routing/policies.ts";
import type { EngineProfile } from "../sim/model/profile.ts";
import { findProfile } from "../sim/profiles/find-profile.ts";
import { engineLimits } from "../sim/replay/engine-setup.ts";
import { atLoad, type KeptTrace, keepTrace } from "../sim/replay/kept-trace.ts";
import { type Goal, missed } from "../sim/replay/plan-goals.ts";
import {
  byCost,
  type Candidate,
  type Fleet,
  type PlanOption,
  type Play,
  smallestFleet,
} from "../sim/replay/plan-search.ts";
import { howSure, type Sureness } from "../sim/replay/plan-sureness.ts";
import { planToml } from "../sim/replay/plan-toml.ts";
import { runReplay } from "../sim/replay/run-replay.ts";
import { slowerProfile } from "../sim/replay/slower-profile.ts";
import type { CliContext, Command, Option, Values } from "./command.ts";
import { planLines } from "./plan-table.ts";
import { type Progress, startProgress } from "./progress.ts";
import { bad, durationOf, ENGINE_OPTIONS, TRACE_OPTIONS, traceOf } from "./replay-flags.ts";
import { brokenOff } from "./stop-code.ts";

const GOALS = [
  "ttft-mean",
  "ttft-p50",
  "ttft-p90",
  "ttft-p99",
  "itl-mean",
  "itl-p50",
  "itl-p90",
  "itl-p99",
  "e2e-p90",
] as const;
const goalOption = (name: string): Option => ({
  type: "string",
  value: "DURATION",
  about: `goal: ${name.replace("-", " ").replace(/^\w+/, (w) => w.toUpperCase())} at most this, for example 800ms`,
});
/** A fleet that has more requests in flight for each engine than this is taken to be overloaded. */
const OVERLOADED_IN_FLIGHT = 400;
/** At this share of the load no request meets another. */
const WITHOUT_LOAD = 0.001;

/** `cgn plan`: the cheapest fleet that serves a trace within goals. */
export const planCommand: Command = {
  name: "plan",
  about:
    "find the cheapest fleet that serves a trace within TTFT and ITL goals, what breaks first, and how sure that is",
  examples: [
    "cgn plan trace.jsonl --profile h100-8b --ttft-p90 800ms --itl-p90 50ms",
    "cgn plan trace.jsonl --profile h100-70b --ttft-p90 2s --kv-offload none --kv-offload lmcache --host-gib 64 --host-gib 256 --out cgn.toml",
  ],
  positionals: [{ name: "trace", about: "as for cgn replay", required: true }],
  options: {
    ...Object.fromEntries(GOALS.map((name) => [name, goalOption(name)])),
    profile: {
      type: "string",
      value: "NAME|FILE",
      default: "default",
      about: "how fast an engine is; see cgn sim profiles",
    },
    kind: { type: "string", choices: ["vllm", "sglang"], default: "vllm", about: "which engine" },
    "max-engines": {
      type: "number",
      value: "N",
      whole: true,
      min: 1,
      max: 1024,
      default: 32,
      about: "the largest fleet to look at",
    },
    policy: {
      type: "string[]",
      value: "NAME",
      about: "policies to compare (default ttft and round_robin). May be repeated",
    },
    "kv-offload": {
      type: "string[]",
      value: "NAME",
      about: "offloads to compare (default none and lmcache, or hicache for sglang). May be repeated",
    },
    "host-gib": {
      type: "string[]",
      value: "GIB",
      about: "host memory for them, each engine (default 64 and 256). May be repeated",
    },
    "no-split": { type: "boolean", about: "leave prefill and decode on the same engines" },
    ...ENGINE_OPTIONS,
    ...TRACE_OPTIONS,
    model: { type: "string", value: "NAME", default: "MODEL", about: "the model's name, for --out" },
    out: { type: "string", value: "FILE.toml", about: "write a configuration of the fleet that was found" },
    json: { type: "boolean", about: "print JSON" },
  },
  async run({ options, positionals }, cli) {
    const goals = goalsOf(options);
    const profile = findProfile(String(options["profile"]), cli.cwd);
    const wanted = planOptions(options);
    const kept = await keepTrace(await traceOf(positionals[0] ?? "", options, cli));
    const progress = process.stderr.isTTY === true ? startProgress("plan") : undefined;
    const play = playWith(kept, profile, options, cli);
    const stopped = (): boolean => cli.signal.aborted;
    const candidates = await search(wanted, goals, Number(options["maxEngines"]), play, progress, stopped);
    if (candidates === undefined) return brokenOff(cli.signal);
    candidates.sort(byCost);
    const [best] = candidates;
    const sure =
      best?.missed.length === 0
        ? await howSure(best.fleet, best.figures, goals, profile.errorPercent ?? 100, play)
        : undefined;
    const hopeless =
      best === undefined || sure !== undefined ? [] : missed(goals, await play(best.fleet, { load: WITHOUT_LOAD }));
    progress?.done(`${candidates.length} ways compared`);
    if (options["json"])
      cli.out(JSON.stringify({ trace: kept.trace.name, goals, profile: profile.name, candidates, sureness: sure }));
    else
      cli.out(
        planLines({
          trace: kept,
          goals,
          profile,
          gpusPerEngine: profile.gpus ?? 1,
          candidates,
          sure,
          maxEngines: Number(options["maxEngines"]),
          hopeless,
        }),
      );
    if (best === undefined || sure === undefined) return 1;
    if (typeof options["out"] === "string") writePlan(options["out"], best, goals, sure, profile, options, cli);
    return 0;
  },
};

async function search(
  wanted: readonly PlanOption[],
  goals: readonly Goal[],
  atMost: number,
  play: Play,
  progress: Progress | undefined,
  stopped: () => boolean,
): Promise<Candidate[] | undefined> {
  const candidates: Candidate[] = [];
  for (const [i, option] of wanted.entries()) {
    if (stopped()) {
      progress?.stop("stopped");
      return undefined;
    }
    progress?.update(i / (wanted.length + 1), `${option.policy}, ${option.kvOffload}${option.split ? ", split" : ""}`);
    if (!option.split || atMost >= 2) candidates.push(await smallestFleet(option, goals, atMost, play));
  }
  return candidates;
}

/** Let signals and the terminal in. */
const nextTurn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

function playWith(kept: KeptTrace, profile: EngineProfile, options: Values, cli: CliContext): Play {
  return async (fleet: Fleet, { slower = 1, load = 1 } = {}) => {
    const used = slowerProfile(profile, slower);
    const limits = engineLimits({
      profile: used,
      kvOffload: fleet.kvOffload,
      hostGib: fleet.hostGib,
      diskGib: 0,
      blockTokens: kept.trace.blockTokens,
      blocks: undefined,
      maxBatchedTokens: Number(options["maxBatchedTokens"]),
      maxSequences: Number(options["maxSeqs"]),
    });
    const { figures } = await runReplay(
      atLoad(kept, load, nextTurn),
      {
        policy: fleet.policy,
        routers: 1,
        engines: fleet.engines,
        disaggregated:
          fleet.prefill === undefined
            ? undefined
            : { prefill: fleet.prefill, decode: fleet.engines - fleet.prefill, colocateBelowTokens: 256 },
        limits,
        profile: used,
        gpusPerEngine: profile.gpus ?? 1,
        seed: Number(options["seed"]),
        knowledge: "events",
        knowledgeDelayMs: 5,
        historyEntries: 32,
        lostEvents: 0,
        failures: [],
        admission: {},
      },
      {
        label: "",
        kvOffload: fleet.kvOffload,
        wallNow: () => cli.clock.now(),
        giveUp: (replay) => cli.signal.aborted || replay.inFlight > OVERLOADED_IN_FLIGHT * fleet.engines,
      },
    );
    return { ...figures, requests: kept.kept.length };
  };
}

function goalsOf(options: Values): readonly Goal[] {
  const goals = GOALS.flatMap((name) => {
    const [measure, figure] = name.split("-") as [Goal["measure"], Goal["figure"]];
    const limitMs = durationOf(options, `${measure}${figure[0]!.toUpperCase()}${figure.slice(1)}`, `--${name}`);
    return limitMs === undefined ? [] : [{ measure, figure, limitMs }];
  });
  if (goals.length === 0) throw bad("Cannot plan without a goal: none is given. Add for example --ttft-p90 800ms");
  return goals;
}

function planOptions(options: Values): readonly PlanOption[] {
  const list = (name: string): readonly string[] | undefined => options[name] as readonly string[] | undefined;
  const kind = String(options["kind"]);
  const policies = list("policy") ?? ["ttft", "round_robin"];
  for (const name of policies)
    if (!POLICY_NAMES.some((known) => known === name))
      throw bad(`Cannot route by "${name}": there is no such policy. Use ${POLICY_NAMES.join(", ")}`);
  const offloads = (list("kvOffload") ?? ["none", kind === "sglang" ? "hicache" : "lmcache"]).map(parseKvOffload);
  const sizes = (list("hostGib") ?? ["64", "256"]).map(Number);
  if (sizes.some((gib) => !(gib > 0))) throw bad("Cannot read --host-gib: it must be a number of GiB above 0");
  const splits = options["noSplit"] === true ? [false] : [false, true];
  return policies.flatMap((policy) =>
    offloads.flatMap((kvOffload) =>
      (kvOffload === "none" || kvOffload === "nixl" ? [0] : sizes).flatMap((hostGib) =>
        splits.map((split) => ({ policy, kvOffload, hostGib, split })),
      ),
    ),
  );
}

function writePlan(
  file: string,
  best: Candidate,
  goals: readonly Goal[],
  sure: Sureness,
  profile: EngineProfile,
  options: Values,
  cli: CliContext,
): void {
  const path = isAbsolute(file) ? file : resolve(cli.cwd, file);
  const limits = goals
    .map(({ measure, figure, limitMs }) => `${measure.toUpperCase()} ${figure} ${limitMs} ms`)
    .join(", ");
  const about = [
    `Made by cgn plan: the cheapest fleet for ${limits}.`,
    `Profile ${profile.name} (times may be off by ${sure.errorPercent} %); chance that the goals hold: ${Math.round(sure.chance * 100)} %.`,
    "Engines are written for one host: with several, each gets its own part and its own GPU indices.",
  ];
  const text = planToml(best.fleet, {
    kind: options["kind"] === "sglang" ? "sglang" : "vllm",
    model: String(options["model"]),
    gpusPerEngine: profile.gpus ?? 1,
    about,
  });
  try {
    writeFileSync(path, text);
  } catch (e) {
    throw new CgnError(
      "STORAGE_UNUSABLE",
      `Cannot write the configuration ${path}: ${e instanceof Error ? e.message : String(e)}`,
      { path },
    );
  }
  cli.err(`Configuration: ${path}`);
}
