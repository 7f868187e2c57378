import { pairProblems } from "../config/checks/pair-problems.ts";
import { type LoadedConfig, type LoadOptions, loadConfig, throwOnErrors } from "../config/load.ts";
import type { EnginePick } from "../config/pick.ts";
import { formatProblem, problemsError } from "../config/problems.ts";
import type { Settings } from "../config/settings.ts";
import { ENGINE_KINDS, ROLES } from "../core/engine-kind.ts";
import { CgnError, type Problem } from "../core/errors.ts";
import { KV_OFFLOADS } from "../core/kv-offload.ts";
import type { CliContext, Option, Values } from "./command.ts";
import { type DetectedVersions, detectVersions, givenVersions, versionKinds } from "./engine-versions.ts";

/** Options of commands that choose for the engines of the file. */
export const PICK_OPTIONS = {
  model: { type: "string", value: "NAME", about: "only the engines of this model" },
  role: {
    type: "string",
    value: "ROLE",
    about: "both, prefill or decode, for every engine of the file",
    offers: ROLES,
  },
  kind: { type: "string", value: "KIND", about: "engine kind, for every engine of the file", offers: ENGINE_KINDS },
  "kv-offload": {
    type: "string",
    value: "OFFLOAD",
    about: "the dial, for every engine of the file",
    offers: KV_OFFLOADS,
  },
} as const satisfies Record<string, Option>;

/** Short flags of a command by dotted key: `{ "router.listen_http": { flag: "--listen", value: "127.0.0.1:8080" } }`. */
export type Shortcuts = Readonly<Record<string, { readonly flag: string; readonly value: string | number | boolean }>>;

/**
 * Turn a command's options into what loading takes: `--config`, `--set KEY=VALUE`, `--model`, `--role`, `--kind`,
 * `--kv-offload`, `--engine-version`, and the command's own shortcuts (which win over `--set`).
 * @throws CgnError BAD_INVOCATION for a `--set` without `=`
 */
export function loadOptions(
  options: Values,
  cli: Pick<CliContext, "env" | "cwd">,
  shortcuts: Shortcuts = {},
): LoadOptions {
  const given = Object.fromEntries(Object.entries(shortcuts).map(([key, { value }]) => [key, value]));
  const text = (name: string): string | undefined => (typeof options[name] === "string" ? options[name] : undefined);
  const pick: EnginePick = definedOnly({
    model: text("model"),
    role: text("role"),
    kind: text("kind"),
    kvOffload: text("kvOffload"),
  });
  const path = text("config");
  const engineVersion = givenVersions(options);
  return {
    env: cli.env,
    cwd: cli.cwd,
    overrides: { ...readSets(options.set), ...given },
    flagOf: (key) => shortcuts[key]?.flag ?? `--set ${key}`,
    pick,
    ...(path === undefined ? {} : { path }),
    ...(engineVersion === undefined ? {} : { engineVersion }),
  };
}

/**
 * Load the configuration for a command; warnings go to stderr.
 * @throws CgnError as `loadSettings()` does, and BAD_INVOCATION for a `--set` without `=`
 */
export function loadForCommand(options: Values, cli: CliContext, shortcuts: Shortcuts = {}): Settings {
  return loadedForCommand(options, cli, shortcuts).settings;
}

/**
 * The same, with each engine's command rendered for the version that `--engine-version` names, else for the one that is
 * installed (`--no-detect`: not asked), else for the newest that is known.
 * @param before what runs now: its engines keep their side ports
 * @throws CgnError as `loadForCommand()` does, and for what the version does not take
 */
export async function loadForLaunch(
  options: Values,
  cli: CliContext,
  shortcuts: Shortcuts = {},
  before?: Pick<Settings, "engines">,
): Promise<Settings> {
  const loadWith = { ...loadOptions(options, cli, shortcuts), ...(before === undefined ? {} : sidePortsOf(before)) };
  const loaded = await loadWithVersions(loadWith, options, cli);
  throwOnErrors(loaded);
  const pairs = pairProblems([loaded]);
  const errors = pairs.filter(({ severity }) => severity === "error");
  if (errors.length > 0) throw problemsError(loaded.settings.file ?? "the configuration", errors);
  for (const warning of [...loaded.settings.warnings, ...pairs]) cli.err(formatProblem(warning));
  return loaded.settings;
}

function sidePortsOf({ engines }: Pick<Settings, "engines">): Required<Pick<LoadOptions, "sidePortBases">> {
  return { sidePortBases: new Map(engines.map(({ slot }) => [slot.port, slot.sidePortBase])) };
}

/** Load, ask what is installed, and load again for it: so what a version does not take is told with its place. */
export async function loadWithVersions(
  loadWith: LoadOptions,
  options: Values,
  cli: Pick<CliContext, "env">,
): Promise<LoadedConfig> {
  const loaded = withUnusedVersions(loadConfig(loadWith), options);
  const hasErrors = loaded.problems.some(({ severity }) => severity === "error");
  if (loadWith.engineVersion !== undefined || options["detect"] === false || hasErrors) return loaded;
  const { versionOf, silent } = await detectVersions(loaded.settings, cli.env);
  const any = loaded.settings.engines.some(({ kind }, index) => versionOf({ index, kind }) !== undefined);
  return withSilent(any ? loadConfig({ ...loadWith, engineVersion: versionOf }) : loaded, silent);
}

/** A command for another version than the one that is installed may be refused, or do other things. */
function withSilent(loaded: LoadedConfig, silent: DetectedVersions["silent"]): LoadedConfig {
  const told = new Map(silent.map((each) => [`${each.kind} ${each.python}`, each]));
  return withWarnings(
    loaded,
    [...told.values()].map(({ kind, python }) => ({
      path: "engine.kind",
      problem: `${python} did not tell which ${kind} it has: the command is for the newest that cgn knows`,
      remedy: "Name it with --engine-version, or try again when this host has less to do",
    })),
  );
}

/** `--engine-version KIND=VERSION` for a kind that the file does not have is a slip. */
function withUnusedVersions(loaded: LoadedConfig, options: Values): LoadedConfig {
  const { settings } = loaded;
  const kinds = [...new Set(settings.engines.map(({ kind }) => kind))];
  const unused = versionKinds(options).filter((kind) => !kinds.some((each) => each === kind));
  const there = kinds.length === 0 ? "none at all" : kinds.join(", ");
  return withWarnings(
    loaded,
    unused.map((kind) => ({
      path: "engine.kind",
      problem: `--engine-version is given for ${kind}, and no engine of that kind is here (there is ${there})`,
      remedy: "Give the version for a kind that is here, or leave it out",
    })),
  );
}

function withWarnings(
  loaded: LoadedConfig,
  more: readonly Pick<Problem, "path" | "problem" | "remedy">[],
): LoadedConfig {
  const { settings } = loaded;
  const file = settings.file === undefined ? {} : { file: settings.file };
  const warnings = more.map((each): Problem => ({ severity: "warning", ...file, ...each }));
  if (warnings.length === 0) return loaded;
  return {
    ...loaded,
    problems: [...loaded.problems, ...warnings],
    settings: { ...settings, warnings: [...settings.warnings, ...warnings] },
  };
}

/** The same, with what the settings were made from. */
export function loadedForCommand(options: Values, cli: CliContext, shortcuts: Shortcuts = {}): LoadedConfig {
  const loaded = loadConfig(loadOptions(options, cli, shortcuts));
  throwOnErrors(loaded);
  for (const warning of loaded.settings.warnings) cli.err(formatProblem(warning));
  return loaded;
}

/** Split `--set KEY=VALUE` at the first `=` outside quotes. */
function readSets(given: Values[string]): Record<string, string> {
  const sets: Record<string, string> = {};
  for (const each of Array.isArray(given) ? (given as readonly string[]) : []) {
    const [, key, value] = /^((?:[^="']|"[^"]*"|'[^']*')+)=(.*)$/s.exec(each) ?? [];
    if (key === undefined || value === undefined) {
      const remedy = "Write --set KEY=VALUE, for example --set router.policy=round_robin";
      throw new CgnError("BAD_INVOCATION", `Cannot read --set "${each}": it has no "=". ${remedy}`, { given: each });
    }
    sets[key.trim()] = value;
  }
  return sets;
}

function definedOnly<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never;
}
