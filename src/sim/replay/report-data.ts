import type { ReplayRun } from "./run-replay.ts";

/** What the report page's script gets, as JSON. */
export interface ReportData {
  readonly runs: readonly {
    readonly label: string;
    readonly plots: ReplayRun["plots"];
    readonly engines: readonly { readonly requests: number; readonly hitRate: number; readonly busyShare: number }[];
  }[];
  readonly hitRateCeiling: number;
}

export function reportData(runs: readonly ReplayRun[]): ReportData {
  return {
    hitRateCeiling: runs[0]?.figures.hitRateCeiling ?? 0,
    runs: runs.map(({ label, plots, figures }) => ({
      label,
      plots,
      engines: figures.perEngine.map(({ requests, hitRate, busySeconds }) => ({
        requests,
        hitRate,
        busyShare: figures.virtualSeconds === 0 ? 0 : busySeconds / figures.virtualSeconds,
      })),
    })),
  };
}
