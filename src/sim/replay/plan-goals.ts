import type { ReplayFigures } from "./run-replay.ts";

/** A limit that a plan must keep, for example "TTFT p90 at most 800 ms". */
export interface Goal {
  readonly measure: "ttft" | "itl" | "e2e";
  readonly figure: "mean" | "p50" | "p90" | "p99";
  readonly limitMs: number;
}

export const goalName = ({ measure, figure }: Goal): string => `${measure.toUpperCase()} ${figure}`;

/** What a run says of a goal, milliseconds. */
export function reached(goal: Goal, figures: ReplayFigures): number {
  const of = { ttft: figures.ttftMs, itl: figures.itlMs, e2e: figures.e2eMs }[goal.measure];
  return of[goal.figure];
}

/** Goals that a run misses. Requests that were refused or cut off miss all of them. */
export function missed(goals: readonly Goal[], figures: ReplayFigures): readonly Goal[] {
  if (figures.rejected + figures.failed > 0 || figures.completed < figures.requests) return goals;
  return goals.filter((goal) => reached(goal, figures) > goal.limitMs);
}
