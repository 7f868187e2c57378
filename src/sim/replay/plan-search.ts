import type { KvOffload } from "../../core/kv-offload.ts";
import { type Goal, missed } from "./plan-goals.ts";
import type { ReplayFigures } from "./run-replay.ts";

/** One way to serve the trace. */
export interface PlanOption {
  readonly policy: string;
  readonly kvOffload: KvOffload;
  /** Host memory for KV blocks, each engine. */
  readonly hostGib: number;
  /** Prefill and decode on different engines. */
  readonly split: boolean;
}

/** A fleet: an option with numbers. */
export interface Fleet extends PlanOption {
  readonly engines: number;
  readonly prefill: number | undefined;
}

/** The smallest fleet of an option that keeps the goals, or what its largest one missed. */
export interface Candidate {
  readonly fleet: Fleet;
  readonly figures: ReplayFigures;
  readonly missed: readonly Goal[];
}

/** Play the trace with a fleet. `slower`: factor on all of the profile's times; `load`: on the arrivals' rate. */
export type Play = (
  fleet: Fleet,
  change?: { readonly slower?: number; readonly load?: number },
) => Promise<ReplayFigures>;

/** Shares of the engines that prefill, where they are split. */
const PREFILL_SHARES = [0.25, 0.375, 0.5, 0.625, 0.75];

/**
 * The fewest engines of an option that keep the goals. More engines are taken to be never worse, so that halving finds them.
 * @param atMost engines; the best one of so many is given, with what it misses, where none keeps the goals
 */
export async function smallestFleet(
  option: PlanOption,
  goals: readonly Goal[],
  atMost: number,
  play: Play,
): Promise<Candidate> {
  const tried = new Map<number, Candidate>();
  const at = async (engines: number): Promise<Candidate> => {
    let found = tried.get(engines);
    if (found === undefined) tried.set(engines, (found = await bestSplit(option, engines, goals, play)));
    return found;
  };
  const least = option.split ? 2 : 1;
  let high = least;
  while ((await at(high)).missed.length > 0 && high < atMost) high = Math.min(atMost, high * 2);
  if ((await at(high)).missed.length > 0) return at(high);
  let low = Math.max(least, Math.floor(high / 2));
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if ((await at(middle)).missed.length === 0) high = middle;
    else low = middle + 1;
  }
  return at(high);
}

async function bestSplit(option: PlanOption, engines: number, goals: readonly Goal[], play: Play): Promise<Candidate> {
  const splits = option.split
    ? [...new Set(PREFILL_SHARES.map((share) => Math.min(engines - 1, Math.max(1, Math.round(engines * share)))))]
    : [undefined];
  let best: Candidate | undefined;
  for (const prefill of splits) {
    const fleet: Fleet = { ...option, engines, prefill };
    const figures = await play(fleet);
    const candidate = { fleet, figures, missed: missed(goals, figures) };
    if (best === undefined || better(candidate, best)) best = candidate;
    if (candidate.missed.length === 0) break;
  }
  return best!;
}

function better(a: Candidate, b: Candidate): boolean {
  if (a.missed.length !== b.missed.length) return a.missed.length < b.missed.length;
  return a.figures.ttftMs.p90 < b.figures.ttftMs.p90;
}

/** Those that keep the goals first, cheapest first: GPUs, then host memory, then what is simpler to run. */
export function byCost(a: Candidate, b: Candidate): number {
  if ((a.missed.length === 0) !== (b.missed.length === 0)) return a.missed.length === 0 ? -1 : 1;
  const cost = ({ fleet }: Candidate): number[] => [
    fleet.engines,
    fleet.engines * fleet.hostGib,
    Number(fleet.split),
    Number(fleet.policy !== "ttft"),
  ];
  const [left, right] = [cost(a), cost(b)];
  for (let i = 0; i < left.length; i++) if (left[i] !== right[i]) return left[i]! - right[i]!;
  return a.figures.ttftMs.p90 - b.figures.ttftMs.p90;
}
