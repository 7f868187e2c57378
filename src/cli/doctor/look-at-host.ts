import { execFile } from "node:child_process";
import type { LoadedConfig } from "../../config/load.ts";
import { inRange, isVersion } from "../../core/version.ts";
import { ENGINES } from "../../engines/registry.ts";
import { hubCacheDir } from "../../modelfiles/hub-cache.ts";
import { readHost } from "../../process/host/read-host.ts";
import { freeBytes } from "../../process/host/read-model.ts";
import type { CliContext } from "../command.ts";
import { findEngines, type InstalledEngine, installOf } from "../init/find-engines.ts";
import type { Diagnosis } from "./diagnosis.ts";
import { type DriverState, type FolderState, hostFindings } from "./host-findings.ts";

const TIMEOUT_MS = 10_000;

/** Memory, GPUs and their driver, and disks of this host. */
export async function lookAtHost(loaded: LoadedConfig | undefined, { env }: Pick<CliContext, "env">) {
  const [host, driver, folders] = await Promise.all([readHost(true), askDriver(env), lookAtFolders(loaded, env)]);
  return hostFindings(host, driver, folders);
}

function askDriver(env: CliContext["env"]): Promise<DriverState> {
  const args = ["--query-gpu=driver_version", "--format=csv,noheader"];
  const options = { env: env as NodeJS.ProcessEnv, timeout: TIMEOUT_MS, killSignal: "SIGKILL" as const };
  return new Promise((resolve) => {
    execFile("nvidia-smi", args, options, (error, stdout, stderr) => {
      if (error === null) return resolve({ hasTool: true, version: stdout.trim().split("\n")[0] ?? "" });
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return resolve({ hasTool: false });
      const said = (stdout + stderr).trim().split("\n")[0] ?? "";
      resolve({ hasTool: true, problem: said === "" ? error.message : said });
    });
  });
}

async function lookAtFolders(loaded: LoadedConfig | undefined, env: CliContext["env"]): Promise<FolderState[]> {
  const folders = new Map<string, string>();
  if (loaded !== undefined) {
    const { agent } = loaded.settings;
    folders.set(agent.stateDir, "state of engines");
    folders.set(agent.logDir, "logs of engines");
  }
  folders.set(hubCacheDir(env), "models of the hub");
  return Promise.all(
    [...folders].map(async ([dir, what]): Promise<FolderState> => {
      const free = await freeBytes(dir);
      const canWrite = loaded?.ctx.host.canWrite(dir) ?? true;
      return { what, dir, canWrite, ...(free === undefined ? {} : { freeBytes: free }) };
    }),
  );
}

/** Which engines could be started here, and whether cgn knows their versions. */
export async function lookAtEngines(cli: Pick<CliContext, "env" | "cwd">): Promise<Diagnosis[]> {
  const { installed, silent } = await findEngines(cli.env, cli.cwd);
  return engineFindings(installed, silent);
}

/** Pure part of `lookAtEngines()`. @param silent Pythons that did not tell which packages they have */
export function engineFindings(found: readonly InstalledEngine[], silent: readonly string[] = []): Diagnosis[] {
  const area = "engines";
  const unknown = silent.map((python): Diagnosis => {
    const what = `${python} did not tell which packages it has: engines in it are not known`;
    const mend = "Run it by hand to see why, or try again when this host has less to do";
    return { area, level: "warning", what, mend, code: "packages-unknown" };
  });
  return [...unknown, ...(unknown.length > 0 && found.length === 0 ? [] : knownEngines(found))];
}

function knownEngines(found: readonly InstalledEngine[]): Diagnosis[] {
  const area = "engines";
  if (found.length === 0) {
    const ways = ENGINES.flatMap((engine) => installOf(engine) ?? []);
    const what = "none is installed where cgn looks (PATH, virtual environments of this folder and of the home folder)";
    const why = "an engine elsewhere can still be adopted by its URL, or named by its path";
    return [{ area, level: "note", what, why, mend: `Install one: ${ways.join("; ")}` }];
  }
  return found.map(({ engine, version, program, offloads }): Diagnosis => {
    const kept = offloads.filter((offload) => offload !== "none");
    const able = kept.length === 0 ? "" : `; kv_offload ${kept.join(", ")} would work`;
    const what = `${engine.kind} ${version ?? "of an unknown version"} (${program})${able}`;
    const range = engine.versions?.range;
    const isKnown = version === undefined || range === undefined || !isVersion(version) || inRange(version, range);
    if (isKnown) return { area, level: "good", what };
    const why = `cgn knows ${range}: its command is rendered as for the nearest of them`;
    return { area, level: "warning", what, why, mend: "Install a version of that range", code: "engine-version" };
  });
}
