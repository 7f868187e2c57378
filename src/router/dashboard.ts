import { holdsNothing } from "../core/worker.ts";
import type { RouterCore } from "./core.ts";
import type { DecisionRecord } from "./decisions.ts";
import { type AdminExtras, readiness, status } from "./status.ts";

/** Requests that the page lists. */
const RECENT = 120;
/** Points of a chart: more than a screen has no use. */
const CHART_POINTS = 360;

/** `/v1/cgn/dashboard`: all that the page shows of this moment, in one answer. */
export function dashboard(
  core: RouterCore,
  nodeId: string,
  draining: boolean,
  extras: AdminExtras | undefined,
  canLoad: boolean,
): object {
  const workers = core.fleet.workers();
  return {
    now: core.clock.wall(),
    status: status(core, nodeId, draining, extras),
    notReady: readiness(core, draining).notReady,
    engines: extras?.engines?.() ?? {},
    gauges: Object.fromEntries(core.gauges.of(workers.filter(({ state }) => !holdsNothing(state)))),
    requests: core.decisions.latest(RECENT).map(brief),
    can: {
      load: canLoad,
      logs: extras?.logs !== undefined,
      posts: Object.keys(extras?.posts ?? {}),
    },
  };
}

/** A request as a line of a list: without its candidates. */
function brief(record: DecisionRecord): object {
  const { id, at, model, path, stream, promptTokens, unmatched, waitedMs, outcome, attempts } = record;
  const last = attempts.at(-1);
  return {
    id,
    at,
    model,
    path,
    stream,
    promptTokens,
    unmatched,
    waitedMs,
    outcome,
    tries: attempts.length,
    ...(last === undefined
      ? {}
      : {
          worker: last.worker,
          reason: last.reason,
          predicted: last.predictedCachedTokens,
          ...(last.prefill === undefined ? {} : { prefill: last.prefill.worker }),
        }),
  };
}

/** `/v1/cgn/history?minutes=N`: figures over time, 1,440 minutes at most. */
export function history(core: RouterCore, query: URLSearchParams): object {
  const asked = Number(query.get("minutes") ?? 60);
  return core.history.columns(Number.isFinite(asked) && asked > 0 ? Math.min(asked, 1_440) : 60, CHART_POINTS);
}
