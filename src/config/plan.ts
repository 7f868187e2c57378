import { dirname, resolve } from "node:path";
import type { HandOver } from "../core/hand-over.ts";
import type { HostNeeds, Peering } from "../core/host-needs.ts";
import type { LaunchPlan } from "../core/launch-plan.ts";
import type { Announcement, Engine, LaunchInput } from "../engines/engine.ts";
import { findEngine } from "../engines/registry.ts";
import { withEnv } from "./plan-env.ts";
import type { EngineSettings } from "./settings.ts";

/** What an engine's `launch()` and `announce()` take, from its settings. */
export function launchInput(settings: EngineSettings): LaunchInput<unknown> {
  return {
    options: settings.options,
    model: settings.model,
    slot: settings.slot,
    role: settings.role,
    offload: settings.kvOffload,
    readyTimeoutMs: settings.readyTimeoutMs,
    drainGraceMs: settings.drainGraceMs,
    ...(settings.spawn ? {} : { adopted: true }),
    ...(settings.blockTokens === undefined ? {} : { blockTokens: settings.blockTokens }),
    ...(settings.commandTemplate === undefined ? {} : { commandTemplate: settings.commandTemplate }),
  };
}

/**
 * The launch plan of one engine. The same settings give the same plan, byte for byte. An adopted engine has a plan too:
 * with an empty argv, its address and how to know that it answers.
 *
 * @param engine the engine of the settings' kind; tests pass their own
 * @throws CgnError CONFIG_INVALID for options that contradict each other
 */
export function planEngine(settings: EngineSettings, engine: Engine = findEngine(settings.kind)): LaunchPlan {
  return settings.spawn ? withEnv(engine.launch(launchInput(settings)), settings.env) : adoptedPlan(settings, engine);
}

/** What a spawned engine needs of its host; undefined for one that somebody else runs. */
export function engineNeeds(
  settings: EngineSettings,
  plan: LaunchPlan,
  engine: Engine = findEngine(settings.kind),
): HostNeeds | undefined {
  const needs = settings.spawn ? engine.needs?.(launchInput(settings), plan) : undefined;
  if (needs === undefined || !isOwnLauncher(settings, needs.program)) return needs;
  // A simulated engine computes on nothing, and loads no model by itself.
  const { model, gpu: _, ...rest } = needs;
  return model?.path === undefined ? rest : { ...rest, model };
}

/** Is it one of cgn's own launchers, which stand for an engine and compute nothing? */
export function isOwnLauncher({ slot }: EngineSettings, program: string): boolean {
  return slot.launcherDir !== undefined && dirname(resolve(program)) === slot.launcherDir;
}

/** What must agree with the engine at the other end of a hand-over. */
export function enginePeering(
  settings: EngineSettings,
  plan: LaunchPlan,
  engine: Engine = findEngine(settings.kind),
): Peering | undefined {
  return settings.spawn ? engine.peering?.(launchInput(settings), plan) : undefined;
}

/** How an engine hands KV over; undefined: not at all. */
export function engineHandOver(
  settings: EngineSettings,
  plan: LaunchPlan,
  engine: Engine = findEngine(settings.kind),
): HandOver | undefined {
  const { role, spawn, group, url, slot } = settings;
  if (role === "both") return undefined;
  const own = spawn
    ? engine.handOver?.(launchInput(settings), plan)
    : engine.disaggregation?.adopted(role, new URL(url).hostname, slot.prefillBootstrapPort);
  return own === undefined || group === undefined ? own : { ...own, group };
}

function adoptedPlan(settings: EngineSettings, engine: Engine): LaunchPlan {
  const { ready } = engine.probe;
  return {
    version: 1,
    engine: settings.kind,
    kvOffload: settings.kvOffload,
    role: settings.role,
    model: settings.model.name,
    url: settings.url,
    argv: [],
    env: {},
    files: [],
    ports: [{ name: "http", port: settings.slot.port }],
    ready: {
      path: ready.path,
      timeoutMs: settings.readyTimeoutMs,
      ...(ready.method === undefined ? {} : { method: ready.method }),
      ...(ready.body === undefined ? {} : { body: ready.body }),
    },
    stop: { graceMs: 0, drainsOnSigterm: false },
    sidecars: [],
    requires: [],
    warnings: [],
    reasons: [],
  };
}

/** How many prompts an adopted engine without known events is believed to keep. */
const ADOPTED_HISTORY = 8;

/**
 * What may be known of an engine from its settings alone. For an adopted engine the side ports mean nothing: KV events are
 * those that were written, else history until the engine is asked (`Engine.probe.kvSources`).
 *
 * @param engine the engine of the settings' kind; tests pass their own
 */
export function announceEngine(settings: EngineSettings, engine: Engine = findEngine(settings.kind)): Announcement {
  const said = engine.announce(launchInput(settings));
  if (settings.spawn) return said;
  const { kvEvents } = settings;
  const { blockTokens, ranks, ...rest } = said;
  return {
    ...rest,
    ...(settings.blockTokens === undefined ? {} : { blockTokens: settings.blockTokens }),
    kv:
      kvEvents !== undefined
        ? { type: "events", topic: "", dpRank: 0, ...kvEvents, origin: "configuration" }
        : said.kv.type === "history"
          ? said.kv
          : { type: "history", entries: ADOPTED_HISTORY },
  };
}
