import { ROLES } from "../core/engine-kind.ts";
import { isCgnError, type Problem } from "../core/errors.ts";
import type { KvOffload } from "../core/kv-offload.ts";
import type { LaunchPlan } from "../core/launch-plan.ts";
import { GIB } from "../core/units.ts";
import type { Engine, EngineSlot } from "../engines/engine.ts";
import { acceptedOffloads } from "../engines/table.ts";
import type { Section } from "./config-schema.ts";
import { type EngineAddress, placeEngines } from "./engine-address.ts";
import { type EngineDraft, engineDrafts } from "./engine-drafts.ts";
import { engineEntries } from "./engine-entries.ts";
import { engineSlots } from "./engine-slots.ts";
import { assignGpuSets } from "./gpu-sets.ts";
import { formatKeyPath, type KeyPath, parseKeyPath } from "./key-path.ts";
import { readCommandTemplate } from "./legacy-command.ts";
import { isWritten, type LoadContext, originOf, placeText, report } from "./load-context.ts";
import type { EnginePick } from "./pick.ts";
import { launchInput } from "./plan.ts";
import { portClashes } from "./plan-ports.ts";
import { problemAt } from "./problems.ts";
import { modelByName } from "./resolve-models.ts";
import type { AgentSettings, ClusterSettings, EngineSettings, ModelSettings } from "./settings.ts";
import { orderStarts } from "./start-order.ts";

/** What engines need from the rest of the configuration. */
export interface EngineSurroundings {
  readonly agentSection: Section<"agent">;
  readonly agent: AgentSettings;
  readonly cluster: ClusterSettings;
  readonly blockTokens?: number;
  /** Ports of cgn's own daemons, with the key that says so. */
  readonly listeners: ReadonlyMap<number, KeyPath>;
}

/** An engine × offload × role pair that the engine does not accept. */
export interface Refusal {
  readonly accepted: readonly KvOffload[];
}

export interface ResolvedEngines {
  readonly engines: readonly EngineSettings[];
  /** The pairs that were refused; each stands among the problems too. */
  readonly refusals: readonly Refusal[];
}

/** Everything about engines: entries, models, addresses, the dial, slots, and what the engines' own launches find wrong. */
export function resolveEngines(
  ctx: LoadContext,
  models: readonly ModelSettings[],
  around: EngineSurroundings,
  pick: EnginePick,
): ResolvedEngines {
  const drafts = engineDrafts(ctx, engineEntries(ctx, pick), models, pick);
  const before = errorCount(ctx);
  const template = commandTemplate(ctx, around.agentSection, drafts);
  const addresses = placeEngines(ctx, drafts, around.listeners, template);
  const refusals = drafts.flatMap((draft) => checkDial(ctx, draft, roleOf(draft, around), template) ?? []);
  const slots = engineSlots(ctx, drafts, addresses, around.agentSection, around.cluster, {
    stateDir: around.agent.stateDir,
    takenPorts: [...around.listeners.keys()],
  });
  const engines = orderStarts(
    ctx,
    drafts,
    assignGpuSets(
      ctx,
      drafts,
      drafts.map((draft, n) => engineSettings(draft, n, addresses[n]!, slots[n]!, around, template)),
    ),
    pick.model !== undefined,
  );
  if (errorCount(ctx) > before) return { engines, refusals };
  const joined = joinPrefills(ctx, engines);
  checkPorts(
    ctx,
    drafts,
    drafts.map((draft, n) => checkLaunch(ctx, draft, joined[n]!)),
  );
  return { engines: joined, refusals };
}

const errorCount = (ctx: LoadContext): number => ctx.layers.problems.filter((p) => p.severity === "error").length;

const roleOf = (draft: EngineDraft, around: EngineSurroundings) => draft.common.role ?? around.agentSection.role;

/** Refuse a pair that the engine does not accept, naming it and what would be accepted. */
function checkDial(
  ctx: LoadContext,
  draft: EngineDraft,
  role: (typeof ROLES)[number],
  template: readonly string[] | undefined,
): Refusal | undefined {
  const { engine, common, entry } = draft;
  const cell = engine.cell(common.kv_offload, role);
  if (cell.supported || isMistyped(draft)) return undefined;
  // What the user wrote wins: his own hand-over stands in for the dial's. The plan warns of it.
  if (common.kv_offload === "none" && writesTransfer(draft, template)) return undefined;
  const accepted = acceptedOffloads(engine, role);
  const pair = `engine kind "${engine.kind}" does not accept kv_offload = "${common.kv_offload}" with role = "${role}"`;
  const roleIsWrong =
    accepted.length === 0 || (common.kv_offload === "none" && !isWritten(ctx, [...entry.path, "kv_offload"]));
  const path = roleIsWrong ? roleKey(ctx, entry.path) : [...entry.path, "kv_offload"];
  report(ctx, path, {
    // The remedy lists what is accepted; a reason that ends with the same list would say it twice.
    problem: `${pair}. ${cell.reason.replace(/\.$/, "").replace(/\. Choose [^.]*$/, "")}`,
    remedy: dialRemedy(engine, role, accepted),
    code: "offload-refused",
  });
  return { accepted };
}

function writesTransfer({ engine, options, model }: EngineDraft, template: readonly string[] | undefined): boolean {
  const words = engine.kind === LEGACY_KIND ? (template ?? []) : [];
  return engine.writesTransfer?.(options, [...words, ...(model?.extraArgs ?? [])]) === true;
}

/** Was something else written for the dial or the role than stands in their lists? That was noted, and the pair is not known. */
function isMistyped({ entry, common }: EngineDraft): boolean {
  return (
    (entry.tree.kv_offload ?? common.kv_offload) !== common.kv_offload ||
    (entry.tree.role ?? common.role) !== common.role
  );
}

function roleKey(ctx: LoadContext, entry: KeyPath): KeyPath {
  return isWritten(ctx, [...entry, "role"]) || !isWritten(ctx, ["agent", "role"])
    ? [...entry, "role"]
    : ["agent", "role"];
}

function dialRemedy(engine: Engine, role: string, accepted: readonly KvOffload[]): string {
  if (accepted.length > 0)
    return `With role "${role}" ${engine.kind} accepts ${accepted.map((each) => `"${each}"`).join(", ")}`;
  const roles = ROLES.filter((each) => acceptedOffloads(engine, each).length > 0);
  return `${engine.kind} accepts role ${roles.map((each) => `"${each}"`).join(", ")}`;
}

/** The kind that `vllm_url` and `vllm_cmd` of old agent files mean. */
const LEGACY_KIND = "vllm";

function commandTemplate(
  ctx: LoadContext,
  agent: Section<"agent">,
  drafts: readonly EngineDraft[],
): readonly string[] | undefined {
  if (agent.vllm_cmd === undefined || agent.vllm_cmd.length === 0) return undefined;
  const path = ["agent", "vllm_cmd"];
  const template = readCommandTemplate(agent.vllm_cmd);
  if ("problem" in template) {
    report(ctx, path, template);
    return undefined;
  }
  const other = drafts.find((draft) => draft.engine.kind !== LEGACY_KIND);
  if (other !== undefined) {
    report(ctx, path, {
      severity: "warning",
      problem: `is the command of a vLLM engine and is not used for kind "${other.engine.kind}"`,
      remedy: `Set [engine.${other.engine.section}].binary and extra_args, and remove vllm_cmd`,
    });
  }
  return template.words;
}

function engineSettings(
  draft: EngineDraft,
  n: number,
  address: EngineAddress,
  slot: EngineSlot,
  around: EngineSurroundings,
  template: readonly string[] | undefined,
): EngineSettings {
  const { common, engine } = draft;
  const own = {
    group: common.group,
    ttlMs: common.ttl,
    preload: common.preload,
    memoryBytes: common.memory_gib === undefined ? undefined : Math.floor(common.memory_gib * GIB),
    blockTokens: around.blockTokens,
    commandTemplate: engine.kind === LEGACY_KIND ? template : undefined,
    kvEvents:
      common.kv_events === undefined
        ? undefined
        : { endpoint: common.kv_events, ...(common.kv_replay === undefined ? {} : { replay: common.kv_replay }) },
  };
  return {
    nodeId: common.node_id ?? (n === 0 ? around.agent.nodeId : `${around.agent.nodeId}-${n}`),
    kind: engine.kind,
    url: address.url,
    kvOffload: common.kv_offload,
    role: roleOf(draft, around),
    spawn: draft.spawn,
    model: draft.model ?? modelByName(""),
    slot,
    options: draft.options,
    readyTimeoutMs: common.ready_timeout ?? around.agent.readyTimeoutMs,
    drainGraceMs: common.drain_grace ?? around.agent.drainGraceMs,
    path: draft.entry.path,
    stallMs: common.stall_timeout ?? around.agent.stallMs,
    env: Object.fromEntries(
      Object.entries(common.env ?? {}).map(([name, value]) => [
        name,
        typeof value === "string" ? value : { secretFrom: value.secret_from },
      ]),
    ),
    inheritEnv: common.inherit_env,
    shareGpus: common.share_gpus,
    startAfter: [],
    ...(Object.fromEntries(Object.entries(own).filter(([, value]) => value !== undefined)) as Partial<EngineSettings>),
  };
}

/**
 * A decode engine that must know its prefill's bootstrap port gets it from the prefill engine of the same kind, model and
 * group in this file: the port that its plan names `bootstrap`.
 */
function joinPrefills(ctx: LoadContext, engines: readonly EngineSettings[]): EngineSettings[] {
  return engines.map((engine) => {
    if (engine.role !== "decode" || engine.slot.prefillBootstrapPort !== undefined) return engine;
    const prefill = engines.find(
      (other) =>
        other.role === "prefill" &&
        other.kind === engine.kind &&
        other.model.name === engine.model.name &&
        other.group === engine.group,
    );
    const port = prefill === undefined ? undefined : bootstrapPort(ctx, prefill);
    return port === undefined ? engine : { ...engine, slot: { ...engine.slot, prefillBootstrapPort: port } };
  });
}

function bootstrapPort(ctx: LoadContext, prefill: EngineSettings): number | undefined {
  try {
    const engine = ctx.engines.find((each) => each.kind === prefill.kind);
    return engine?.launch(launchInput(prefill)).ports.find((port) => port.name === "bootstrap")?.port;
  } catch (e) {
    if (isCgnError(e)) return undefined; // The prefill engine's own check tells it.
    throw e;
  }
}

/** Ask the engine itself: options that contradict each other are known only to its launch. */
function checkLaunch(ctx: LoadContext, draft: EngineDraft, settings: EngineSettings): Pick<LaunchPlan, "ports"> {
  if (!settings.spawn) return { ports: [] };
  try {
    return draft.engine.launch(launchInput(settings));
  } catch (e) {
    if (!isCgnError(e, "CONFIG_INVALID")) throw e;
    for (const problem of e.details.problems) ctx.layers.problems.push(placed(ctx, draft, problem));
    return { ports: [] };
  }
}

/** Written side ports (`lmcache.port`, a user's own `--kv-events-config`) may meet; allotted ones never do. */
function checkPorts(
  ctx: LoadContext,
  drafts: readonly EngineDraft[],
  plans: readonly Pick<LaunchPlan, "ports">[],
): void {
  for (const { port, first, second } of portClashes(plans)) {
    const { path } = drafts[second.index]!.entry;
    const other = first.index === second.index ? "the same engine" : placeText(ctx, drafts[first.index]!.entry.path);
    report(ctx, path, {
      problem: `port ${port} (${second.name}) is already a port of ${other} (${first.name})`,
      remedy: "Write another port in the engine's section or its extra_args, or leave it out",
    });
  }
}

/** Engines speak of `engine.…` or of their section; give it the entry's path and place. */
function placed(ctx: LoadContext, draft: EngineDraft, problem: Problem): Problem {
  const spoken = parseKeyPath(problem.path) ?? [];
  const { path } = draft.entry;
  const { section } = draft.engine;
  const full =
    spoken[0] === "engine"
      ? [...path, ...spoken.slice(1)]
      : spoken[0] === section
        ? [...path, ...spoken]
        : spoken[0] === "models" || spoken[0] === "agent" || spoken[0] === "kv"
          ? spoken
          : [...path, section, ...spoken];
  const known = ctx.layers.origins.has(formatKeyPath(full)) ? full : spoken.length === 0 ? path : full;
  return problemAt(known, originOf(ctx, known), problem, ctx.file);
}
