import { type Goal, missed, reached } from "./plan-goals.ts";
import type { Fleet, Play } from "./plan-search.ts";
import type { ReplayFigures } from "./run-replay.ts";

/** Steps of halving: slowdowns are found to about 3 %. */
const HALVINGS = 5;
const MOST_SLOWER = 3;
const LOADS = [1.1, 1.25, 1.5, 2, 3, 4];

/** How far a fleet is from missing its goals. */
export interface Sureness {
  /** The goals hold while engines are at most so many times slower than the profile says. */
  readonly slowerThatHolds: number;
  /** Chance that they hold, given the profile's error as one standard deviation of a lognormal. 0 to 1. */
  readonly chance: number;
  readonly errorPercent: number;
  /** What is missed first as the load grows; undefined: nothing up to four times the load. */
  readonly breaks: Break | undefined;
}

export interface Break {
  /** Load (rate of arrivals) that still holds, and that does not, as factors. */
  readonly holdsAt: number;
  readonly failsAt: number;
  readonly goal: Goal;
  readonly reachedMs: number;
  /** Why, for people. */
  readonly reason: string;
}

/** Ask how sure a fleet is that keeps the goals. About ten runs. */
export async function howSure(
  fleet: Fleet,
  figures: ReplayFigures,
  goals: readonly Goal[],
  errorPercent: number,
  play: Play,
): Promise<Sureness> {
  let holds = 1;
  let fails = MOST_SLOWER;
  for (let i = 0; i < HALVINGS; i++) {
    const slower = Math.sqrt(holds * fails);
    if (missed(goals, await play(fleet, { slower })).length === 0) holds = slower;
    else fails = slower;
  }
  const spread = Math.log(1 + errorPercent / 100);
  const chance = spread === 0 ? 1 : normal(Math.log(Math.sqrt(holds * fails)) / spread);
  return { slowerThatHolds: holds, chance, errorPercent, breaks: await firstBreak(fleet, figures, goals, play) };
}

async function firstBreak(
  fleet: Fleet,
  base: ReplayFigures,
  goals: readonly Goal[],
  play: Play,
): Promise<Break | undefined> {
  let holdsAt = 1;
  for (const failsAt of LOADS) {
    const figures = await play(fleet, { load: failsAt });
    const [first] = [...missed(goals, figures)].sort(
      (a, b) => reached(b, figures) / b.limitMs - reached(a, figures) / a.limitMs,
    );
    if (first === undefined) {
      holdsAt = failsAt;
      continue;
    }
    return {
      holdsAt,
      failsAt,
      goal: first,
      reachedMs: reached(first, figures),
      reason: reasonOf(first, base, figures),
    };
  }
  return undefined;
}

/** The part that grew most, of the time that the goal is about. */
function reasonOf({ measure }: Goal, before: ReplayFigures, after: ReplayFigures): string {
  const counts = (part: string): boolean => measure === "e2e" || (part === "decode") === (measure === "itl");
  const grown = Object.entries(after.meanTimeMs)
    .filter(([part]) => counts(part))
    .map(([part, ms]) => [part, ms - before.meanTimeMs[part as keyof typeof before.meanTimeMs]] as const);
  const [part] = grown.reduce((a, b) => (b[1] > a[1] ? b : a));
  const full = after.preemptions > before.preemptions + after.requests / 100;
  if (full) return "the KV memory of the engines is full: running answers are put back into the queue";
  const words: Readonly<Record<string, string>> = {
    queue: "requests wait for a place in the engines",
    prefill: "prompts share the engines' steps with more others",
    fetch: "reading KV blocks back from the tier takes too long",
    transfer: "handing over from prefill to decode takes too long",
    decode: "answers share the engines' steps with more others",
  };
  return words[part] ?? "all parts of the time grow";
}

/** Standard normal distribution function (Abramowitz and Stegun 26.2.17, error below 1e-7). */
function normal(x: number): number {
  const t = 1 / (1 + 0.2316419 * Math.abs(x));
  const tail =
    (Math.exp((-x * x) / 2) / Math.sqrt(2 * Math.PI)) *
    t *
    (0.31938153 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))));
  return x >= 0 ? 1 - tail : tail;
}
