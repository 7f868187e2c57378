import type { KvSourceStatus } from "../core/kv-status.ts";

/**
 * How good the predictions for a worker were lately, in a few characters: exact of all requests in the last ten minutes, those
 * that an event explains which was still on its way, and those that nothing explains.
 */
export function exactness({ truth = [] }: KvSourceStatus): string {
  const window = truth.find(({ seconds }) => seconds === 600);
  if (window === undefined || window.requests === 0) return "-";
  const { exact, requests, inFlight, unexplained } = window;
  const late = inFlight === 0 ? "" : `, ${inFlight} in flight`;
  return `${exact} of ${requests}${late}${unexplained === 0 ? "" : `, ${unexplained} unexplained`}`;
}

/** What is to be said below the table: alarms with their remedies, and why generated tokens are not checked. */
export function trustLines(sources: readonly KvSourceStatus[]): readonly string[] {
  const lines: string[] = [];
  /** Said once for all workers of which the same is true. */
  const unchecked = new Map<string, string[]>();
  for (const { worker, alarms = [], canonicity } of sources) {
    for (const { code, message, forMs } of alarms) lines.push(`${worker}: ${code} for ${spoken(forMs)}: ${message}`);
    const off = canonicity?.state === "off" ? canonicity.detail : "";
    if (off !== "") unchecked.set(off, [...(unchecked.get(off) ?? []), worker]);
  }
  for (const [why, workers] of unchecked) lines.push(`${workers.join(", ")}: generated tokens are not checked: ${why}`);
  return lines;
}

function spoken(ms: number): string {
  const minutes = Math.round(ms / 60_000);
  return minutes < 1
    ? `${Math.round(ms / 1000)} s`
    : minutes < 120
      ? `${minutes} min`
      : `${Math.round(minutes / 60)} h`;
}
