import { readFileSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import { CgnError, type Problem } from "../core/errors.ts";
import type { Engine } from "../engines/engine.ts";
import { ENGINES } from "../engines/registry.ts";
import { checkCascades } from "./check-cascades.ts";
import { configSchema } from "./config-schema.ts";
import { addEnvironmentLayer } from "./environment.ts";
import { checkSharedGpus } from "./gpu-sets.ts";
import { type HostFacts, readHostFacts } from "./host.ts";
import type { KeyPath } from "./key-path.ts";
import { formatKeyPath } from "./key-path.ts";
import { addFileLayer, type Layers, newLayers, type OriginOf } from "./layers.ts";
import { isWritten, type LoadContext } from "./load-context.ts";
import { addOverrideLayer, type Overrides } from "./overrides.ts";
import type { EnginePick } from "./pick.ts";
import { type Origin, problemsError, sortProblems } from "./problems.ts";
import { type ConfigText, findConfigText } from "./read-file.ts";
import { authSettings } from "./resolve-auth.ts";
import { type Refusal, resolveEngines } from "./resolve-engines.ts";
import { resolveModels } from "./resolve-models.ts";
import {
  agentSettings,
  clusterSettings,
  kvSettings,
  metricsSettings,
  parseSections,
  routerSettings,
  type Sections,
  securitySettings,
  tracingSettings,
} from "./resolve-sections.ts";
import { resolveSwap } from "./resolve-swap.ts";
import type { Settings } from "./settings.ts";
import { parseToml, type TomlDocument } from "./toml.ts";
import { warnUnsupported } from "./unsupported.ts";
import { writtenFolders } from "./written-folders.ts";

export interface LoadOptions {
  /** `--config`; see `findConfigText()` for where is looked otherwise. */
  readonly path?: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** Flags as dotted keys; they win over the environment, which wins over the file. */
  readonly overrides?: Overrides;
  /** How a message names the flag of an override. Default: `--set KEY`. */
  readonly flagOf?: (key: string) => string;
  /** What `--model`, `--kind`, `--role` and `--kv-offload` choose for the engines. */
  readonly pick?: EnginePick;
  /** Which version of an engine its command is rendered for; undefined: the newest that is known. */
  readonly engineVersion?: LoadContext["engineVersion"];
  /** First side ports of engines that run, by their HTTP port: a reload leaves them where they are. */
  readonly sidePortBases?: LoadContext["sidePortBases"];
  /** Default: the machine this runs on. */
  readonly host?: HostFacts;
  /** Default: the registry. */
  readonly engines?: readonly Engine[];
}

/** Settings with what they were made from, for `cgn check` and `cgn config explain`. */
export interface LoadedConfig {
  readonly settings: Settings;
  readonly ctx: LoadContext;
  /** Sorted; errors are thrown by `loadSettings()` and kept here. */
  readonly problems: readonly Problem[];
  readonly refusals: readonly Refusal[];
}

/**
 * Load the configuration: defaults, file, environment, flags.
 *
 * @throws CgnError CONFIG_NOT_FOUND (a named file is not there), CONFIG_INVALID (all problems at once, each with its place),
 * OFFLOAD_REFUSED (nothing is wrong but pairs of engine, offload and role that the engine does not accept)
 */
export function loadSettings(options: LoadOptions): Settings {
  const loaded = loadConfig(options);
  throwOnErrors(loaded);
  return loaded.settings;
}

/**
 * The same, with errors among the problems instead of thrown.
 * @throws CgnError when the file cannot be read or is not TOML
 */
export function loadConfig(options: LoadOptions): LoadedConfig {
  const source = findConfigText(options.path, options.env, options.cwd);
  const ctx = makeContext(options, source);
  const sections = parseSections(ctx);
  const models = resolveModels(ctx);
  const cluster = clusterSettings(ctx, sections.cluster);
  const agent = agentSettings(ctx, sections.agent, sections.kv);
  const { block_size_tokens: blockTokens } = sections.kv;
  const { engines, refusals } = resolveEngines(
    ctx,
    models,
    {
      agentSection: sections.agent,
      agent,
      cluster,
      listeners: listenerPorts(ctx, sections),
      ...(blockTokens === undefined ? {} : { blockTokens }),
    },
    options.pick ?? {},
  );
  const swapped = resolveSwap(ctx, engines, sections.swap);
  checkSharedGpus(ctx, swapped.engines, swapped.swap);
  const parts = {
    cluster,
    router: routerSettings(ctx, sections.router, sections.swap, models),
    agent,
    kv: kvSettings(ctx, sections.kv, sections.agent),
    security: securitySettings(ctx, sections.security),
    auth: authSettings(ctx, sections.auth),
    metrics: metricsSettings(sections.metrics),
    tracing: tracingSettings(sections.tracing, options.env["OTEL_EXPORTER_OTLP_ENDPOINT"]),
  };
  checkCascades(ctx, models, swapped.engines, parts.router);
  warnUnsupported(
    ctx,
    engines.map((engine) => engine.kvOffload),
  );
  const problems = sortProblems(ctx.layers.problems);
  const warnings = problems.filter((p) => p.severity === "warning");
  const settings = {
    ...(source === undefined ? {} : { file: source.file }),
    ...parts,
    models,
    engines: swapped.engines,
    swap: swapped.swap,
    warnings,
    folders: writtenFolders(ctx),
  };
  return { settings, ctx, problems, refusals };
}

/** @throws CgnError as `loadSettings()` does */
export function throwOnErrors({ problems, refusals, settings }: LoadedConfig): void {
  const errors = problems.filter((p) => p.severity === "error");
  if (errors.length === 0) return;
  const failure = problemsError(settings.file === undefined ? "the configuration" : `"${settings.file}"`, problems);
  if (refusals.length < errors.length) throw failure;
  const accepted = refusals[0]?.accepted ?? [];
  throw new CgnError("OFFLOAD_REFUSED", failure.message, { accepted, problems: errors });
}

function makeContext(options: LoadOptions, source: ConfigText | undefined): LoadContext {
  const engines = options.engines ?? ENGINES;
  const schema = configSchema(engines);
  const layers = newLayers();
  const readSecret = (path: string): string => readFileSync(isAbsolute(path) ? path : join(options.cwd, path), "utf8");
  if (source !== undefined) {
    const document = parseToml(source.text, source.file);
    addFileLayer(layers, document.value, schema, fileOrigins(source.file, document), readSecret);
    if (Object.keys(document.value).length === 0) noteEmpty(layers, source.file);
  }
  addEnvironmentLayer(layers, options.env, schema, readSecret);
  addOverrideLayer(layers, options.overrides ?? {}, schema, readSecret, options.flagOf ?? ((key) => `--set ${key}`));
  return {
    layers,
    host: options.host ?? readHostFacts(options.env),
    engines,
    ...(options.engineVersion === undefined ? {} : { engineVersion: options.engineVersion }),
    ...(options.sidePortBases === undefined ? {} : { sidePortBases: options.sidePortBases }),
    ...(source === undefined ? {} : { file: source.file }),
  };
}

function fileOrigins(file: string, document: TomlDocument): OriginOf {
  return (written: KeyPath, part): Origin => {
    const path = formatKeyPath(written);
    const place = document.places.get(path)?.[part] ?? { line: 1, column: 1 };
    return { from: "file", file, path, line: place.line, column: place.column };
  };
}

function noteEmpty(layers: Layers, file: string): void {
  const problem = "the file sets nothing, so every value is the default";
  layers.problems.push({ severity: "warning", path: "", file, problem, remedy: "Start from one in recipes/" });
}

/** Ports that daemons of this file listen on. Only those whose section is there or whose default all set-ups share. */
function listenerPorts(ctx: LoadContext, sections: Sections): Map<number, KeyPath> {
  const all: [KeyPath, { readonly port: number } | undefined][] = [
    [["router", "listen_http"], sections.router.listen_http],
    [["router", "listen_admin"], sections.router.listen_admin],
    [["router", "listen_grpc"], sections.router.listen_grpc],
    [["agent", "listen"], sections.agent.listen],
    [["agent", "listen_admin"], sections.agent.listen_admin],
    [["agent", "listen_grpc"], sections.agent.listen_grpc],
    [["kv", "listen"], sections.kv.listen],
    [["metrics", "listen"], sections.metrics.listen],
  ];
  const ports = new Map<number, KeyPath>();
  for (const [path, listener] of all) {
    if (listener === undefined || listener.port === 0) continue;
    if (!ports.has(listener.port) || isWritten(ctx, path)) ports.set(listener.port, path);
  }
  return ports;
}
