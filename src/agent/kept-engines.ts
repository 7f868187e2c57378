import { planEngine } from "../config/plan.ts";
import type { AgentSettings, EngineSettings } from "../config/settings.ts";
import type { Clock } from "../core/clock.ts";
import type { WorkerId } from "../core/ids.ts";
import type { LaunchPlan } from "../core/launch-plan.ts";
import type { Log } from "../core/log.ts";
import type { Engine } from "../engines/engine.ts";
import { findEngine } from "../engines/registry.ts";
import { endAllKept, type KeptEngine, keptText, listKept, type SortedKept, sortKept } from "../process/kept-engines.ts";
import { planFingerprints } from "../process/plan-supervisor.ts";
import { workerIds } from "./engine-worker.ts";
import { pause, waitIdle } from "./idle.ts";

/** Does an engine outlive its agent? Of those that take turns none: the next agent would not know which of them has the place. */
export function isKept({ keepEngines }: Pick<AgentSettings, "keepEngines">, { onDemand }: EngineSettings): boolean {
  return keepEngines && onDemand === undefined;
}

/** An engine of a file with what it would be started as. */
export interface PlannedEngine {
  readonly id: WorkerId;
  readonly settings: EngineSettings;
  readonly engine: Pick<Engine, "spawns">;
  readonly plan: LaunchPlan;
}

/** The engines of a file as its agent plans them. @throws CgnError CONFIG_INVALID */
export function plannedEngines(engines: readonly EngineSettings[]): PlannedEngine[] {
  const ids = workerIds(engines);
  return engines.map((settings, n) => {
    const engine = findEngine(settings.kind);
    return { id: ids[n]!, settings, engine, plan: planEngine(settings, engine) };
  });
}

/**
 * What earlier agents left running in the state folder that an agent of this file would not take over.
 * @throws Error (errno) when that cannot be looked at for want of a file descriptor
 */
export function unwantedKept(agent: AgentSettings, engines: readonly PlannedEngine[]): SortedKept {
  const own = ({ settings, engine }: PlannedEngine): boolean => settings.spawn && engine.spawns;
  const kept = engines.filter((each) => own(each) && isKept(agent, each.settings));
  return sortKept(listKept(agent.stateDir), {
    node: agent.nodeId,
    fingerprints: new Map(kept.flatMap(({ id, plan }) => planFingerprints(id, plan))),
    urls: engines.filter((each) => !own(each)).map(({ settings }) => settings.url),
  });
}

/** End kept engines as a reload ends one that is gone, and say so. The signal ends the wait for their requests. */
export async function endUnwanted(
  { stale, others }: SortedKept,
  { clock, log, signal }: { readonly clock: Clock; readonly log: Log; readonly signal: AbortSignal },
): Promise<void> {
  for (const other of others) {
    const whose = other.owner === undefined ? `node ${other.note.node}` : `the agent with pid ${other.owner}`;
    log.warn(`${keptText(other)} runs on: it is kept for ${whose}`, { pid: other.kept.pid });
  }
  const running = stale.filter(({ runs }) => runs);
  for (const each of running) {
    const why = "it is kept from an earlier agent and not in this file as it runs, or keep_engines is off";
    log.warn(`${keptText(each)} is ended: ${why}`, { pid: each.kept.pid });
  }
  await endAllKept(stale, (each) => drained(each, clock, signal));
  for (const { note, kept } of running) log.info("kept engine is ended", { name: note.name, pid: kept.pid });
}

/** Its own figures say when it has no request left: no router of this process sends it any. */
async function drained({ note }: KeptEngine, clock: Clock, signal: AbortSignal): Promise<void> {
  const { kind, url = "", drainMs } = note;
  const late = new AbortController();
  const done = new AbortController();
  const end = (): void => late.abort();
  signal.addEventListener("abort", end, { once: true });
  if (signal.aborted) end();
  void pause(clock, drainMs, done.signal).then(end);
  const { probe } = findEngine(kind as EngineSettings["kind"]);
  // One that does not tell is given SIGTERM at once: waiting would not show that its requests ended.
  if (probe.metrics !== undefined) await waitIdle({ url, probe, clock, signal: late.signal });
  done.abort();
  signal.removeEventListener("abort", end);
}
