import { constants } from "node:fs";
import { access, stat, statfs } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import type { DiskNeed, HostNeeds, PackageNeed } from "../../core/host-needs.ts";
import type { LaunchPlan, PlanPort } from "../../core/launch-plan.ts";
import { findPortHolder, isPortFree } from "../port-holder.ts";
import type { DiskState, LaunchState, PackageState, PortState } from "./host-state.ts";
import { findProgram } from "./program.ts";
import { askPackages } from "./python-packages.ts";
import { type FindInHub, freeBytes, readModelState } from "./read-model.ts";
import { runningLaunch } from "./running.ts";

export interface LookOptions {
  /** The environment that engines get. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly findInHub: FindInHub;
  /** Ports that processes of ours hold rightly. */
  readonly heldPorts?: ReadonlySet<number>;
}

/** Look at what one launch needs of this host. */
export async function readLaunch(needs: HostNeeds, plan: LaunchPlan, options: LookOptions): Promise<LaunchState> {
  const { env, findInHub } = options;
  const program = await findProgram(needs.program, env);
  const asked = [...(needs.own === undefined ? [] : [needs.own]), ...needs.packages];
  const [packages, model, taken, disks, missingFiles, missingFileVariables, missingPrograms] = await Promise.all([
    program.python === undefined || asked.length === 0
      ? undefined
      : askPackages(program.python, [...asked, ...INSTALLERS], env),
    needs.model === undefined ? undefined : readModelState(needs.model, env, findInHub),
    takenPorts(plan, options.heldPorts),
    Promise.all(needs.disks.flatMap((disk) => foldersOf(disk, env)).map(lookAtDisk)),
    absent(filesOf(plan, needs)),
    absentVariables(needs.fileVariables, env),
    absentPrograms(plan, needs, env),
  ]);
  const runningPid = await runningOf(taken, plan);
  return {
    program,
    ...(packages === undefined ? {} : { packages, installer: installerIn(packages) }),
    ...(model === undefined ? {} : { model }),
    ports: runningPid === undefined ? taken : [],
    ...(runningPid === undefined ? {} : { runningPid }),
    missingPrograms,
    disks,
    missingFiles,
    variables: setOf(needs, env),
    missingFileVariables,
  };
}

/** What installs packages, looked for beside those that are needed. */
const INSTALLERS: readonly PackageNeed[] = ["pip", "ensurepip"].map((name) => ({ name, module: name, why: "--fix" }));

/** A venv of uv has no pip; Debian's Python has no ensurepip. */
function installerIn(packages: Readonly<Record<string, PackageState>>): "pip" | "ensurepip" | "uv" {
  if (packages["pip"] !== undefined) return "pip";
  return packages["ensurepip"] === undefined ? "uv" : "ensurepip";
}

/** Files that the plan requires, without the model, which is looked at by itself. */
const filesOf = (plan: LaunchPlan, needs: HostNeeds): string[] =>
  plan.requires.flatMap(({ what, name }) => (what === "file" && name !== needs.model?.path ? [name] : []));

async function absent(files: readonly string[]): Promise<string[]> {
  const there = await Promise.all(
    files.map((file) =>
      stat(resolve(file)).then(
        () => true,
        () => false,
      ),
    ),
  );
  return files.filter((_, i) => there[i] === false);
}

async function absentPrograms(plan: LaunchPlan, needs: HostNeeds, env: LookOptions["env"]): Promise<string[]> {
  const names = plan.requires.flatMap(({ what, name }) => (what === "binary" && name !== needs.program ? [name] : []));
  const found = await Promise.all(names.map((name) => findProgram(name, env)));
  return names.filter((_, i) => found[i]?.path === undefined);
}

/** The HTTP port tells whether it is this engine that runs. */
async function runningOf(taken: readonly PortState[], plan: LaunchPlan): Promise<number | undefined> {
  const holder = taken.find(({ name }) => name === "http")?.holder;
  return holder === undefined ? undefined : runningLaunch(holder.pid, plan.argv);
}

async function absentVariables(names: readonly string[], env: LookOptions["env"]): Promise<string[]> {
  const set = names.filter((name) => (env[name] ?? "") !== "");
  const missing = await absent(set.map((name) => env[name] ?? ""));
  return set.filter((name) => missing.includes(env[name] ?? ""));
}

function setOf(needs: HostNeeds, env: LookOptions["env"]): Record<string, string> {
  const names = [...needs.refusedVariables.map(({ name }) => name), ...needs.fileVariables];
  if (needs.gpu?.unless !== undefined) names.push(needs.gpu.unless.name);
  if (needs.gpu !== undefined && needs.gpu.indices === undefined) names.push("CUDA_VISIBLE_DEVICES");
  return Object.fromEntries(names.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]])));
}

/** The folders of a disk need, each to be looked at: a variable may name several. */
function foldersOf({ dir, variable, inTemp }: DiskNeed, env: LookOptions["env"]): string[] {
  const named = variable === undefined ? "" : (env[variable] ?? "");
  if (named !== "") return [named.split(",")[0] ?? named];
  return [inTemp === true ? join(tmpdir(), dir) : dir];
}

async function lookAtDisk(dir: string): Promise<DiskState> {
  const free = await freeBytes(dir);
  const problem = await writeProblem(dir);
  return { dir, ...(free === undefined ? {} : { freeBytes: free }), ...problem };
}

/** A folder that is not there yet can be made when its nearest parent can be written. Makes nothing. */
async function writeProblem(dir: string): Promise<Pick<DiskState, "problem" | "wantsRights">> {
  for (let at = resolve(dir); ; at = dirname(at)) {
    const found = await stat(at).catch(() => undefined);
    if (found === undefined && dirname(at) !== at) continue;
    if (found?.isDirectory() !== true) return { problem: `${at} is no folder` };
    if (await keepsNothing(at)) return { problem: `${at} is of a file system that keeps no files` };
    return access(at, constants.W_OK | constants.X_OK).then(
      () => ({}),
      (error: NodeJS.ErrnoException) =>
        error.code === "EROFS"
          ? { problem: `${at} is mounted read-only` }
          : { problem: `${at} cannot be written by this user`, wantsRights: true },
    );
  }
}

/** An automounter's folder has no blocks either, and what is below it may have (linux/magic.h, AUTOFS_SUPER_MAGIC). */
const AUTOFS = 0x0187;

/** /proc, /sys and their like: the rights may be there, and no file can be made. */
async function keepsNothing(dir: string): Promise<boolean> {
  const found = await statfs(dir).catch(() => undefined);
  return found !== undefined && found.blocks === 0 && found.type !== AUTOFS;
}

/** Ports of a plan that this engine opens and somebody else listens on. */
export async function takenPorts(
  plan: Pick<LaunchPlan, "ports" | "role" | "url">,
  held?: ReadonlySet<number>,
): Promise<PortState[]> {
  const host = new URL(plan.url).hostname.replace(/^\[|\]$/g, "");
  const taken: PortState[] = [];
  for (const { name, port } of openedPorts(plan)) {
    if (held?.has(port) || (await isPortFree(host, port))) continue;
    const holder = await findPortHolder(port);
    taken.push({ name, port, ...(holder === undefined ? {} : { holder }) });
  }
  return taken;
}

/** Each port that a plan opens itself: a decode engine only dials the prefill's bootstrap port. */
export function openedPorts({ ports, role }: Pick<LaunchPlan, "ports" | "role">): { name: string; port: number }[] {
  return ports.filter(({ name }) => !(name === "bootstrap" && role === "decode")).flatMap(spread);
}

function spread({ name, port, count = 1 }: PlanPort): { name: string; port: number }[] {
  return Array.from({ length: count }, (_, i) => ({ name, port: port + i }));
}
