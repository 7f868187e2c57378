import { isDeepStrictEqual } from "node:util";
import type { AgentSettings, EngineSettings } from "../config/settings.ts";
import type { WorkerId } from "../core/ids.ts";
import type { LaunchPlan } from "../core/launch-plan.ts";
import { isSecretName } from "../core/secret-names.ts";
import type { Engine } from "../engines/engine.ts";
import { describeWorker, workerIds } from "./engine-worker.ts";
import type { AgentEngine } from "./managed-engine.ts";

/** One engine as the new configuration wants it. */
export interface WantedEngine {
  readonly id: WorkerId;
  readonly settings: EngineSettings;
  readonly engine: Engine;
  readonly plan: LaunchPlan;
}

/** What a new configuration means for the engines that there are. */
export interface ReloadPlan {
  /** They go on as they are; their settings may differ in what matters to others only. */
  readonly untouched: readonly { readonly old: AgentEngine; readonly settings: EngineSettings }[];
  readonly replaced: readonly {
    readonly old: AgentEngine;
    readonly next: WantedEngine;
    readonly changes: readonly string[];
  }[];
  readonly removed: readonly AgentEngine[];
  readonly added: readonly WantedEngine[];
}

/**
 * Compare engine by engine. Engines are the same one when they have the same URL: a file may name them otherwise, or list them in
 * another order, and the process is the same.
 *
 * What follows from how many engines there are (threads by cores, its number on the host, a node name without `node_id`) is no change:
 * adding an engine must not restart the others. It counts at their next start.
 * @throws CgnError CONFIG_INVALID when a plan cannot be made
 */
export function planReload(
  current: readonly AgentEngine[],
  next: readonly EngineSettings[],
  engineOf: (settings: EngineSettings) => Engine,
  planOf: (settings: EngineSettings, engine: Engine) => LaunchPlan,
): ReloadPlan {
  const untouched: { old: AgentEngine; settings: EngineSettings }[] = [];
  const replaced: { old: AgentEngine; next: WantedEngine; changes: readonly string[] }[] = [];
  const added: WantedEngine[] = [];
  const wanted = next.map((settings) => {
    const engine = engineOf(settings);
    return {
      settings,
      engine,
      plan: planOf(settings, engine),
      old: current.find((old) => old.settings.url === settings.url),
    };
  });
  const changesOf = (each: (typeof wanted)[number], old: AgentEngine): string[] => {
    const alike = likeBefore(each.settings, old.settings);
    return changesBetween(old, { ...each, settings: alike, plan: planOf(alike, each.engine) });
  };
  const judged = wanted.map((each) => ({ ...each, changes: each.old === undefined ? [] : changesOf(each, each.old) }));
  const kept = judged.flatMap(({ old, changes }) => (old !== undefined && changes.length === 0 ? [old.id] : []));
  const ids = freshIds(next, kept);
  for (const [n, { old, changes, ...rest }] of judged.entries()) {
    if (old === undefined) added.push({ ...rest, id: ids[n]! });
    else if (changes.length === 0) untouched.push({ old, settings: { ...rest.settings, nodeId: old.settings.nodeId } });
    else replaced.push({ old, next: { ...rest, id: ids[n]! }, changes });
  }
  const urls = new Set(next.map(({ url }) => url));
  return { untouched, replaced, added, removed: current.filter(({ settings }) => !urls.has(settings.url)) };
}

/** Ids by the rules of `workerIds()`, none of them one that stays with its engine. */
function freshIds(next: readonly EngineSettings[], kept: readonly WorkerId[]): WorkerId[] {
  const taken = new Set<string>(kept);
  return workerIds(next).map((id) => {
    let free: string = id;
    for (let n = 2; taken.has(free); n++) free = `${id}~${n}`;
    taken.add(free);
    return free as WorkerId;
  });
}

function likeBefore(next: EngineSettings, old: EngineSettings): EngineSettings {
  const { cores, enginesOnHost, indexOnHost, launcherDir, found } = old.slot;
  const shares = { cores, enginesOnHost, indexOnHost, launcherDir, found };
  const slot = { ...next.slot };
  for (const key of Object.keys(shares)) delete (slot as Record<string, unknown>)[key];
  const given = Object.fromEntries(Object.entries(shares).filter(([, value]) => value !== undefined));
  return { ...next, nodeId: old.nodeId, slot: { ...slot, ...given } as EngineSettings["slot"] };
}

/** Settings of an engine that its keeper was made with, besides its plan; by the key that a person knows. */
const WATCHED: readonly (readonly [keyof EngineSettings, string])[] = [
  ["spawn", "spawn"],
  ["drainGraceMs", "drain_grace"],
  ["stallMs", "stall_timeout"],
  ["inheritEnv", "inherit_env"],
  ["kvEvents", "kv_events"],
];

function changesBetween(old: AgentEngine, next: Omit<WantedEngine, "id">): string[] {
  const changes = [
    ...wordChanges(old.plan.argv, next.plan.argv),
    ...keyChanges("env.", old.plan.env, next.plan.env),
    ...WATCHED.filter(([key]) => !isDeepStrictEqual(old.settings[key], next.settings[key])).map(([, name]) => name),
  ];
  const rest = ({ argv: _a, env: _e, warnings: _w, reasons: _r, requires: _q, ...plan }: LaunchPlan): object => plan;
  changes.push(...keyChanges("", rest(old.plan), rest(next.plan)));
  const told = ({ settings, engine }: Pick<WantedEngine, "settings" | "engine">): object =>
    describeWorker(old.id, settings, engine);
  // What routers know of it follows from its plan for the most part: said only when nothing else is.
  return changes.length > 0 ? changes : keyChanges("", told(old), told(next));
}

/** `--max-model-len 4096 → 8192`, `+ --enforce-eager`, `- --x`. */
function wordChanges(before: readonly string[], after: readonly string[]): string[] {
  const pairs = (argv: readonly string[]): Map<string, string> => {
    const found = new Map<string, string>();
    argv.forEach((word, n) => {
      if (!word.startsWith("-")) return;
      const [flag = word, ...own] = word.split("=");
      const next = argv[n + 1] ?? "";
      found.set(flag, own.length > 0 ? own.join("=") : next.startsWith("-") ? "" : next);
    });
    return found;
  };
  const [old, next] = [pairs(before), pairs(after)];
  const changes = [...new Set([...old.keys(), ...next.keys()])].flatMap((flag) => {
    const [was, is] = [old.get(flag), next.get(flag)];
    if (was === is) return [];
    if (isSecretName(flag)) return [flag];
    if (was === undefined) return [`+ ${flag} ${is}`.trimEnd()];
    return is === undefined ? [`- ${flag} ${was}`.trimEnd()] : [`${flag} ${was} → ${is}`];
  });
  return changes.length > 0 || isDeepStrictEqual(before, after) ? changes : ["its command"];
}

/** Names only: values may be secrets. */
function keyChanges(prefix: string, before: object, after: object): string[] {
  const [old, next] = [before as Record<string, unknown>, after as Record<string, unknown>];
  const names = [...new Set([...Object.keys(old), ...Object.keys(next)])];
  return names.filter((name) => !isDeepStrictEqual(old[name], next[name])).map((name) => prefix + name);
}

/** Settings of the agent that count at its next start only; by the key that a person knows. */
const AT_START: readonly (readonly [keyof AgentSettings, string])[] = [
  ["listen", "listen"],
  ["listenGrpc", "listen_grpc"],
  ["listenAdmin", "listen_admin"],
  ["kvUds", "kv_uds"],
  ["relay", "relay"],
  ["heartbeatMs", "heartbeat"],
  ["keepEngines", "keep_engines"],
  ["logDir", "log_dir"],
  ["logBounds", "log_file_mib or log_files"],
  ["stateDir", "state_dir"],
  ["oomScoreAdj", "oom_score_adj"],
  ["readyProbeUrl", "ready_probe_url"],
];

/** Which of the agent's own settings differ and are not taken over by a reload. */
export function laterChanges(before: AgentSettings, after: AgentSettings): string[] {
  return AT_START.filter(([key]) => !isDeepStrictEqual(before[key], after[key])).map(([, name]) => `agent.${name}`);
}
