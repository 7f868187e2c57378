import { engineNeeds, planEngine } from "../config/plan.ts";
import type { EngineSettings, Settings } from "../config/settings.ts";
import { ENGINE_KINDS, type EngineKind } from "../core/engine-kind.ts";
import { CgnError } from "../core/errors.ts";
import { isVersion } from "../core/version.ts";
import { findEngine } from "../engines/registry.ts";
import { versionOf } from "../process/host/package-versions.ts";
import { findProgram } from "../process/host/program.ts";
import { askPackages } from "../process/host/python-packages.ts";
import type { Option, Values } from "./command.ts";

/** Options of commands that render engines' commands. */
export const VERSION_OPTIONS = {
  "engine-version": {
    type: "string[]",
    value: "VERSION",
    about: "render for this version of the engine (KIND=VERSION for one kind), instead of asking what is installed",
  },
  "no-detect": {
    type: "boolean",
    about: "do not ask the installed engines for their version; render for the newest that cgn knows",
  },
} as const satisfies Record<string, Option>;

/** Which version an engine is rendered for; undefined: the newest that is known. */
export type EngineVersionOf = (engine: { readonly index: number; readonly kind: EngineKind }) => string | undefined;

/**
 * The versions that `--engine-version` gives: one for all kinds, or `KIND=VERSION`, which wins.
 * @throws CgnError BAD_INVOCATION for what is no version, or no kind
 */
export function givenVersions(options: Values): EngineVersionOf | undefined {
  const given = options["engineVersion"];
  const words = Array.isArray(given) ? (given as readonly string[]) : [];
  if (words.length === 0) return undefined;
  const byKind = new Map<string, string>();
  for (const word of words) {
    const [version = "", kind = ""] = word.split("=").reverse();
    const isKind = kind === "" || ENGINE_KINDS.some((known) => known === kind);
    if (!isVersion(version) || !isKind || word.split("=").length > 2) {
      const remedy = `Write a version such as 0.32.0, or KIND=VERSION with one of ${ENGINE_KINDS.join(", ")}`;
      throw new CgnError("BAD_INVOCATION", `Cannot read --engine-version "${word}". ${remedy}`, { given: word });
    }
    byKind.set(kind, version);
  }
  return ({ kind }) => byKind.get(kind) ?? byKind.get("");
}

/** The kinds for which `--engine-version KIND=VERSION` is given. */
export function versionKinds(options: Values): string[] {
  const given = options["engineVersion"];
  return (Array.isArray(given) ? (given as readonly string[]) : [])
    .filter((word) => word.includes("="))
    .map((word) => word.split("=")[0]!);
}

export interface DetectedVersions {
  readonly versionOf: EngineVersionOf;
  /** Engines whose Python is there and did not tell which packages it has. */
  readonly silent: readonly { readonly kind: EngineKind; readonly python: string }[];
}

/** What is installed for each engine that this file starts and whose command differs by version. Nothing is imported or run but Python's own metadata. */
export async function detectVersions(
  settings: Pick<Settings, "engines">,
  env: Readonly<Record<string, string | undefined>>,
): Promise<DetectedVersions> {
  const found = await Promise.all(settings.engines.map((engine) => detectVersion(engine, env)));
  const silent = settings.engines.flatMap(({ kind }, n) => {
    const python = found[n]?.silent;
    return python === undefined ? [] : [{ kind, python }];
  });
  return { versionOf: ({ index }) => found[index]?.version, silent };
}

interface Detected {
  readonly version?: string | undefined;
  readonly silent?: string;
}

async function detectVersion(
  settings: EngineSettings,
  env: Readonly<Record<string, string | undefined>>,
): Promise<Detected> {
  const engine = findEngine(settings.kind);
  if (!settings.spawn || engine.versions === undefined) return {};
  const needs = engineNeeds(settings, planEngine(settings, engine), engine);
  if (needs?.own === undefined) return {};
  const { python } = await findProgram(needs.program, env);
  if (python === undefined) return {};
  const packages = await askPackages(python, [needs.own], env);
  return packages === undefined ? { silent: python } : { version: versionOf(needs.own, packages) };
}
