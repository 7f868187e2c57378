import type { EngineProfile } from "../sim/model/profile.ts";
import type { KeptTrace } from "../sim/replay/kept-trace.ts";
import { type Goal, goalName, reached } from "../sim/replay/plan-goals.ts";
import type { Candidate, Fleet } from "../sim/replay/plan-search.ts";
import type { Sureness } from "../sim/replay/plan-sureness.ts";
import { textTable } from "./kv-address.ts";
import { percent, span } from "./replay-table.ts";

/** What `cgn plan` found. `candidates` is sorted, the cheapest that holds first. */
export interface PlanFound {
  readonly trace: KeptTrace;
  readonly goals: readonly Goal[];
  readonly profile: EngineProfile;
  readonly gpusPerEngine: number;
  readonly candidates: readonly Candidate[];
  /** Undefined: none keeps the goals. */
  readonly sure: Sureness | undefined;
  readonly maxEngines: number;
  /** Goals that even an engine without load misses: no fleet keeps them. */
  readonly hopeless: readonly Goal[];
}

/** The answer first, then how sure it is, then the table that it comes from. */
export function planLines(found: PlanFound): string {
  const { trace, goals, profile, gpusPerEngine, candidates, sure } = found;
  const last = trace.kept.at(-1)?.at ?? 0;
  const limits = goals.map((goal) => `${goalName(goal)} at most ${span(goal.limitMs)}`).join(", ");
  const head = `${trace.trace.name}: ${trace.kept.length} requests in ${span(last)}. Goals: ${limits}. Engine: profile ${profile.name} (${profile.kind ?? "assumed"}; times may be off by ${profile.errorPercent ?? 100} %).`;
  const [best] = candidates;
  const answer =
    best === undefined || sure === undefined ? noneLines(found) : answerLines(best, sure, gpusPerEngine, goals);
  const rows = candidates.map((candidate) => row(candidate, gpusPerEngine));
  const table = textTable([
    ["", "ENGINES", "GPUS", "POLICY", "KV OFFLOAD", "HIT RATE", "TTFT P50", "P90", "P99", "ITL P90", "BUSY", "GOALS"],
    ...rows,
  ]);
  return [head, "", ...answer, "", "The smallest fleet of each kind:", table, ...trace.trace.notes].join("\n");
}

function answerLines(
  best: Candidate,
  sure: Sureness,
  gpusPerEngine: number,
  goals: readonly Goal[],
): readonly string[] {
  const { fleet, figures } = best;
  const gpus = fleet.engines * gpusPerEngine;
  const figuresText = goals.map((goal) => `${goalName(goal)} ${span(reached(goal, best.figures))}`).join(", ");
  const slower = Math.round((sure.slowerThatHolds - 1) * 100);
  const headroom =
    slower < 1
      ? "It holds with no room: engines a little slower than the profile says miss the goals"
      : `It holds while engines are up to ${slower} % slower than the profile says`;
  const { breaks } = sure;
  return [
    `Cheapest that holds:  ${fleetText(fleet)} = ${gpus} ${gpus === 1 ? "GPU" : "GPUs"}. ${figuresText}, hit rate ${percent(figures.hitRate)}.`,
    `How sure:             ${Math.round(sure.chance * 100)} %. ${headroom}; the profile's error is ${sure.errorPercent} %.`,
    breaks === undefined
      ? "Breaks first:         nothing, up to four times the load."
      : `Breaks first:         ${goalName(breaks.goal)}, between ${breaks.holdsAt} and ${breaks.failsAt} times the load (${span(breaks.reachedMs)}): ${breaks.reason}.`,
  ];
}

function noneLines({ candidates, maxEngines, hopeless, profile }: PlanFound): readonly string[] {
  const [nearest] = candidates;
  const why = nearest === undefined ? "" : ` Nearest: ${fleetText(nearest.fleet)} misses ${missedText(nearest)}.`;
  const none = `Nothing with up to ${maxEngines} engines keeps the goals.${why}`;
  if (hopeless.length === 0) return [`${none} Try a larger --max-engines, another --profile, or wider goals.`];
  const names = hopeless.map(goalName).join(" and ");
  return [
    none,
    `More engines do not help: engines of profile ${profile.name} miss ${names} without any load, since prompts are this long. Try a faster --profile or wider goals.`,
  ];
}

function row(candidate: Candidate, gpusPerEngine: number): readonly string[] {
  const { fleet, figures } = candidate;
  const overloaded = figures.completed + figures.rejected + figures.failed < figures.requests;
  const time = (ms: number): string => (overloaded ? "-" : span(ms));
  const busy =
    figures.perEngine.reduce((sum, { busySeconds }) => sum + busySeconds, 0) /
    Math.max(1, figures.virtualSeconds * figures.engines);
  return [
    candidate.missed.length === 0 ? "*" : "",
    fleet.prefill === undefined
      ? String(fleet.engines)
      : `${fleet.prefill} prefill + ${fleet.engines - fleet.prefill} decode`,
    String(fleet.engines * gpusPerEngine),
    fleet.policy,
    fleet.hostGib > 0 ? `${fleet.kvOffload} ${fleet.hostGib} GiB` : fleet.kvOffload,
    overloaded ? "-" : percent(figures.hitRate),
    ...[figures.ttftMs.p50, figures.ttftMs.p90, figures.ttftMs.p99, figures.itlMs.p90].map(time),
    percent(busy),
    candidate.missed.length === 0 ? "held" : overloaded ? "overloaded" : `missed: ${missedText(candidate)}`,
  ];
}

function fleetText({ engines, prefill, policy, kvOffload, hostGib }: Fleet): string {
  const what =
    prefill === undefined
      ? `${engines} engine${engines === 1 ? "" : "s"}`
      : `${prefill} prefill and ${engines - prefill} decode engines`;
  const offload =
    kvOffload === "none"
      ? "no KV offload"
      : `${kvOffload}${hostGib > 0 ? ` with ${hostGib} GiB of host memory each` : ""}`;
  return `${what}, policy ${policy}, ${offload}`;
}

function missedText(candidate: Candidate): string {
  return candidate.missed.map((goal) => `${goalName(goal)} ${span(reached(goal, candidate.figures))}`).join(", ");
}
