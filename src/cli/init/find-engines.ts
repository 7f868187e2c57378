import { access } from "node:fs/promises";
import { homedir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { readHostFacts } from "../../config/host.ts";
import type { HostNeeds } from "../../core/host-needs.ts";
import { KV_OFFLOADS, type KvOffload } from "../../core/kv-offload.ts";
import type { Engine } from "../../engines/engine.ts";
import { ENGINES } from "../../engines/registry.ts";
import { sampleInput } from "../../engines/sample-input.ts";
import { acceptedOffloads } from "../../engines/table.ts";
import { isThere, versionOf } from "../../process/host/package-versions.ts";
import { findProgram } from "../../process/host/program.ts";
import { askPackages } from "../../process/host/python-packages.ts";
import { cacheDir } from "../places.ts";

type Env = Readonly<Record<string, string | undefined>>;

/** An engine of this host that could be started. */
export interface InstalledEngine {
  readonly engine: Engine;
  /** What is written into its section: a mode, the full path of a program that PATH does not lead to. */
  readonly options: Readonly<Record<string, string>>;
  /** Where its program, or the Python that runs it, lies. */
  readonly program: string;
  readonly version?: string;
  /** Offloads of role "both" whose packages are there too. */
  readonly offloads: readonly KvOffload[];
}

export interface EnginesFound {
  readonly installed: readonly InstalledEngine[];
  /** Pythons that did not tell which packages they have: what is installed there is not known. */
  readonly silent: readonly string[];
}

/** What is asked of each Python that an engine could be of. */
export type AskPackages = typeof askPackages;

/** Every way of every engine that is installed here: on PATH, in the virtual environment in use, in one of this folder or of the home folder. */
export async function findEngines(env: Env, cwd: string, ask: AskPackages = askPackages): Promise<EnginesFound> {
  const found = readHostFacts(env).found;
  const folders = [undefined, ...(await environments(env, cwd))];
  const tries = ENGINES.filter(({ spawns }) => spawns).flatMap((engine) =>
    (engine.installs ?? [{}]).map((options) => ({ engine, options })),
  );
  // One question for all engines: the same Python is asked once, not by each of them.
  const every = tries.flatMap(({ engine, options }) => packagesOf(engine, options, found));
  const silent = new Set<string>();
  const packages = async (python: string) => {
    const told = await ask(python, every, env);
    if (told === undefined) silent.add(python);
    return told;
  };
  const all = await Promise.all(
    tries.map(async ({ engine, options }) => {
      for (const folder of folders) {
        const there = await tryEngine(engine, options, { found, folder, env, packages });
        if (there !== undefined) return there;
      }
      return undefined;
    }),
  );
  return { installed: all.flatMap((each) => each ?? []), silent: [...silent].sort() };
}

/** How an engine that is not here is installed, in the words of its own check. */
export function installOf(engine: Engine): string | undefined {
  return engine.spawns ? needsOf(engine, engine.installs?.at(-1) ?? {}, "none", [])?.install : undefined;
}

/** `bin` folders of virtual environments where people keep engines. */
async function environments(env: Env, cwd: string): Promise<string[]> {
  const home = env["HOME"] || homedir();
  const roots = [
    env["VIRTUAL_ENV"],
    env["CONDA_PREFIX"],
    ...[".venv", "venv", "env"].map((name) => join(cwd, name)),
    ...[".venv", "venv"].map((name) => join(home, name)),
    join(home, ".local"),
    join(cacheDir(env), "venv"),
  ];
  const bins = roots.flatMap((root) => (root === undefined || root === "" ? [] : [join(root, "bin")]));
  const there = await Promise.all(
    bins.map((bin) =>
      access(bin).then(
        () => true,
        () => false,
      ),
    ),
  );
  return [...new Set(bins.filter((_, n) => there[n]))];
}

function needsOf(
  engine: Engine,
  options: Readonly<Record<string, string>>,
  offload: KvOffload,
  found: readonly string[],
): HostNeeds | undefined {
  const input = sampleInput(engine.schema.parse(options), { offload });
  const slot = { ...input.slot, platform: "unknown" as const, found, launcherDir: "/" };
  const launch = { ...input, slot };
  return engine.needs?.(launch, engine.launch(launch));
}

interface Place {
  readonly found: readonly string[];
  /** Undefined: PATH. */
  readonly folder: string | undefined;
  readonly env: Env;
  packages(python: string): ReturnType<AskPackages>;
}

async function tryEngine(
  engine: Engine,
  options: Readonly<Record<string, string>>,
  { found, folder, env, packages: packagesIn }: Place,
): Promise<InstalledEngine | undefined> {
  const needs = needsOf(engine, options, "none", found);
  if (needs === undefined) return undefined;
  const path = folder === undefined ? env["PATH"] : folder;
  const program = await findProgram(needs.program, { ...env, PATH: path });
  if (program.path === undefined || program.pythonMissing !== undefined) return undefined;
  const packages = program.python === undefined ? undefined : await packagesIn(program.python);
  const version = packages === undefined || needs.own === undefined ? undefined : versionOf(needs.own, packages);
  if (needs.own !== undefined && (packages === undefined || !isThere(needs.own, packages))) return undefined;
  const onPath = (env["PATH"] ?? "").split(delimiter).includes(dirname(program.path)) && folder === undefined;
  const offloads = acceptedOffloads(engine, "both").filter((offload) =>
    (needsOf(engine, options, offload, found)?.packages ?? []).every(
      (need) => packages !== undefined && isThere(need, packages),
    ),
  );
  return {
    engine,
    options: { ...options, ...(onPath ? {} : { binary: program.path }) },
    program: program.path,
    ...(version === undefined ? {} : { version }),
    offloads,
  };
}

/** Everything that the engine and any of its offloads need. */
function packagesOf(
  engine: Engine,
  options: Readonly<Record<string, string>>,
  found: readonly string[],
): HostNeeds["packages"] {
  const own = needsOf(engine, options, "none", found)?.own;
  const offloads = KV_OFFLOADS.filter((offload) => engine.cell(offload, "both").supported);
  const needed = offloads.flatMap((offload) => needsOf(engine, options, offload, found)?.packages ?? []);
  return [...(own === undefined ? [] : [own]), ...needed];
}
