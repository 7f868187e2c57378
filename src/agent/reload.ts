import type { MemoryDirectory } from "../cluster/memory-directory.ts";
import type { EngineSettings } from "../config/settings.ts";
import type { WorkerId } from "../core/ids.ts";
import type { LaunchPlan } from "../core/launch-plan.ts";
import type { Log } from "../core/log.ts";
import type { ReloadReport } from "../core/reload-report.ts";
import type { Engine } from "../engines/engine.ts";
import type { AgentOptions } from "./agent.ts";
import type { AgentEngine } from "./managed-engine.ts";
import { laterChanges, planReload, type ReloadPlan, type WantedEngine } from "./reload-plan.ts";
import { stopInOrder } from "./start-order.ts";
import type { SwapBox } from "./swap-box.ts";

type AgentInput = AgentOptions["settings"];

/** What a reload does, and when it is done. */
export interface ReloadResult extends ReloadReport {
  /** Settles once every engine that had to end has ended and what was to be started is starting. */
  readonly done: Promise<void>;
}

/** What of the agent a reload works on. */
export interface ReloadInput {
  readonly before: AgentInput;
  readonly next: AgentInput;
  readonly engines: readonly AgentEngine[];
  isStopping(): boolean;
  /** @param epoch of the process that it replaces */
  manage(made: Omit<AgentEngine, "keeper">, epoch: number | undefined): AgentEngine;
  engineOf(settings: EngineSettings): Engine;
  planOf(settings: EngineSettings, engine: Engine): LaunchPlan;
  readonly directory: MemoryDirectory;
  readonly log: Log;
  /** Start engines in their order, and list them. Settles once each is ready or has failed. */
  begin(engines: readonly AgentEngine[]): Promise<void>;
  /** Say of engines that they come back, until each is ready or has failed. */
  expect(ids: readonly WorkerId[]): void;
  /** Take an engine that is gone off every list. */
  forget(id: WorkerId): void;
  readonly swap: SwapBox;
  set(settings: AgentInput, engines: readonly AgentEngine[]): void;
}

/**
 * Carry out a new configuration. Everything that can be refused is found before anything changes.
 * @throws CgnError CONFIG_INVALID
 */
export function reloadEngines(input: ReloadInput): ReloadResult {
  const { before, next, engines, log } = input;
  const plan = planReload(
    engines,
    next.engines,
    (each) => input.engineOf(each),
    (each, engine) => input.planOf(each, engine),
  );
  const later = laterChanges(before.agent, next.agent);
  const result = {
    restarted: plan.replaced.map(({ next: { id }, changes }) => ({ id, changes })),
    started: plan.added.map(({ id }) => id),
    stopped: plan.removed.map(({ id }) => id),
    untouched: plan.untouched.map(({ old }) => old.id),
    later,
  };
  log.info("configuration is reloaded", {
    restarts: result.restarted.map(({ id, changes }) => `${id}: ${changes.join(", ")}`),
    starts: result.started,
    stops: result.stopped,
    untouched: result.untouched.length,
  });
  if (later.length > 0) log.warn("changes that count when the agent is started anew", { keys: later });
  input.expect(result.restarted.map(({ id }) => id));
  return { ...result, done: carryOut(input, plan) };
}

async function carryOut(input: ReloadInput, plan: ReloadPlan): Promise<void> {
  // Engines that take turns are told apart anew, and that only while none of them is on its way.
  if (swapDiffers(input, plan)) return carryOutWithSwap(input, plan);
  const ended = endOld(plan, []);
  let list = input.engines.map((old) => renewed(old, plan));
  const begun = new Map<string, Promise<void>>();
  const beginOne = async (wanted: WantedEngine, old: AgentEngine | undefined): Promise<void> => {
    const inTheWay = [...ended].filter(([other]) => other === old || meet(other, wanted));
    await Promise.all(inTheWay.map(([, end]) => end));
    await Promise.all(wanted.settings.startAfter.map((url) => begun.get(url)));
    if (input.isStopping()) return;
    const fresh = input.manage(wanted, old?.keeper.status().worker.epoch);
    list = [...list.filter((each) => each.keeper !== old?.keeper), fresh];
    input.set(input.next, list);
    begun.set(wanted.settings.url, input.begin([fresh]));
  };
  input.set(input.next, list);
  const removals = plan.removed.map(async (old) => {
    await ended.get(old);
    list = list.filter(({ keeper }) => keeper !== old.keeper);
    input.set(input.next, list);
    input.forget(old.id);
  });
  // In the file's order, so that what others wait for is begun before them.
  const places = new Map(input.next.engines.map(({ url }, n) => [url, n]));
  const fresh = [
    ...plan.replaced.map(({ next, old }) => ({ next, old })),
    ...plan.added.map((next) => ({ next, old: undefined })),
  ];
  const depth = (wanted: WantedEngine): number =>
    wanted.settings.startAfter.reduce((most, url) => {
      const before = fresh.find(({ next }) => next.settings.url === url);
      return before === undefined ? most : Math.max(most, depth(before.next) + 1);
    }, 0);
  const levels = Map.groupBy(fresh, ({ next }) => depth(next));
  for (const level of [...levels.keys()].sort((a, b) => a - b)) {
    await Promise.all(levels.get(level)!.map(({ next, old }) => beginOne(next, old)));
  }
  await Promise.all(removals);
  list = [...list].sort((a, b) => places.get(a.settings.url)! - places.get(b.settings.url)!);
  input.set(input.next, list);
}

/** All that ends has ended before anything is begun: which of the engines has the place would not be known otherwise. */
async function carryOutWithSwap(input: ReloadInput, plan: ReloadPlan): Promise<void> {
  const { next, engines, swap } = input;
  const between = plan.untouched.map(({ old }) => old).filter((old) => isBetween(input, old));
  swap.close();
  const ended = endOld(plan, between);
  await Promise.all(ended.values());
  for (const old of plan.removed) input.forget(old.id);
  if (input.isStopping()) return;
  const fresh = [
    ...plan.replaced.map(({ next: wanted, old }) => input.manage(wanted, old.keeper.status().worker.epoch)),
    ...plan.added.map((wanted) => input.manage(wanted, undefined)),
  ];
  const there = [...plan.untouched.map(({ old, settings }) => ({ ...old, settings })), ...fresh];
  const all = next.engines.flatMap(({ url }) => there.find(({ settings }) => settings.url === url) ?? []);
  input.set(next, all);
  swap.open(all, next.swap);
  const turned = new Set(engines.flatMap(({ settings }) => (settings.onDemand === undefined ? [] : [settings.url])));
  // One that took turns and is to run always now may be away.
  const always = all.filter((each) => !swap.owns(each.id) && !fresh.includes(each) && turned.has(each.settings.url));
  void input.begin([...fresh, ...always]);
  await swap.resume(all);
  for (const { keeper } of all) input.directory.set(swap.announce(keeper.status()));
}

/** Drain and end what is removed or replaced, in reverse order of their start; when each has ended. */
function endOld(plan: ReloadPlan, more: readonly AgentEngine[]): ReadonlyMap<AgentEngine, Promise<void>> {
  const ending = [...plan.removed, ...plan.replaced.map(({ old }) => old), ...more];
  const ends = new Map(ending.map((old) => [old, Promise.withResolvers<void>()]));
  const stop = async (old: AgentEngine): Promise<void> => {
    // What is drained is out of routing first, also for an engine that would drain by itself on SIGTERM.
    await old.keeper.stop({ drainMs: old.settings.drainGraceMs, why: "its configuration changed" });
    ends.get(old)!.resolve();
  };
  void stopInOrder(ending, stop);
  return new Map([...ends].map(([old, { promise }]) => [old, promise]));
}

/** The same engine with settings that matter to others only. */
function renewed(old: AgentEngine, { untouched }: ReloadPlan): AgentEngine {
  const found = untouched.find((each) => each.old === old);
  return found === undefined ? old : { ...old, settings: found.settings };
}

/** Would the two hold the same port or GPU? */
function meet(old: AgentEngine, wanted: WantedEngine): boolean {
  const ports = ({ plan }: Pick<AgentEngine, "plan">): number[] =>
    plan.ports.flatMap(({ port, count = 1 }) => Array.from({ length: count }, (_, n) => port + n));
  const taken = new Set(ports(old));
  const gpus = old.settings.slot.gpus;
  return (
    ports(wanted).some((port) => taken.has(port)) ||
    (wanted.settings.slot.gpus === undefined) !== (gpus === undefined) ||
    wanted.settings.slot.gpus?.some((gpu) => gpus?.includes(gpu)) === true
  );
}

/** Is an engine that takes turns neither loaded nor away? */
function isBetween({ swap }: ReloadInput, { id, keeper }: AgentEngine): boolean {
  if (!swap.owns(id)) return false;
  const { state } = swap.announce(keeper.status());
  return state !== "ready" && state !== "unloaded";
}

/** Did anything change for the engines that take turns? */
function swapDiffers({ before, next, engines }: ReloadInput, plan: ReloadPlan): boolean {
  const rules = (settings: readonly EngineSettings[]): string =>
    JSON.stringify(
      settings.flatMap(({ url, onDemand, ttlMs }) => (onDemand === undefined ? [] : [{ url, onDemand, ttlMs }])),
    );
  const member = ({ settings }: { readonly settings: EngineSettings }): boolean => settings.onDemand !== undefined;
  if (JSON.stringify(before.swap) !== JSON.stringify(next.swap)) return true;
  if (rules(engines.map(({ settings }) => settings)) !== rules(next.engines)) return true;
  return plan.replaced.some(({ old, next: wanted }) => member(old) || member(wanted));
}
