import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import { delimiter, isAbsolute, join, resolve } from "node:path";
import { setTimeout } from "node:timers/promises";
import { CgnError } from "../core/errors.ts";
import { FINDINGS, type Finding } from "../core/findings.ts";
import type { HostNeeds } from "../core/host-needs.ts";
import type { LaunchPlan } from "../core/launch-plan.ts";
import { launchFindings } from "./host/findings.ts";
import { readHost } from "./host/read-host.ts";
import { openedPorts, readLaunch } from "./host/read-launch.ts";
import type { FindInHub } from "./host/read-model.ts";
import { variableOf } from "./host/running.ts";
import { findPortHolder, isPortFree } from "./port-holder.ts";
import { RUN_VARIABLE } from "./signals.ts";

/** What a plan needs from this host before a process is made. */
export interface PreflightInput {
  /** For the messages: the worker's id. */
  readonly name: string;
  readonly plan: LaunchPlan;
  /** The environment that the process will get. */
  readonly env: Readonly<Record<string, string>>;
  /** Ports that processes of ours hold rightly (a sidecar that runs on). */
  readonly heldPorts?: ReadonlySet<number>;
  /** What the launch needs besides its plan (`Engine.needs()`). Left out: only program, files and ports are looked at. */
  readonly needs?: HostNeeds;
  readonly findInHub?: FindInHub;
  /** What may be meant, and does not keep the engine from starting. */
  readonly onWarning?: (finding: Finding) => void;
}

/**
 * Check what would make a start fail for sure, so that the message names the cause instead of an engine's traceback. Cheap: what
 * a Python has is kept until it changes.
 * @throws CgnError ENGINE_NOT_FOUND, MODEL_NOT_FOUND, PORT_IN_USE, or what `FINDINGS` names for what was found
 */
export async function preflight(input: PreflightInput): Promise<void> {
  await requireCommand(input.name, input.plan.argv, input.env);
  await requireFiles(input);
  await requirePorts(input);
  await requireHost(input);
}

async function requireHost({ name, plan, env, needs, findInHub = async () => undefined, onWarning }: PreflightInput) {
  if (needs === undefined) return;
  // Ports were looked at above, with patience for those that die.
  const state = await readLaunch(needs, { ...plan, ports: [] }, { env, findInHub });
  const findings = launchFindings({ name, needs, state }, await readHost(needs.gpu !== undefined));
  const fatal = findings.find(({ severity }) => severity === "error");
  if (fatal !== undefined) throw findingError(name, fatal, plan.model);
  for (const finding of findings) onWarning?.(finding);
}

function findingError(name: string, { code, what, remedy, fix }: Finding, model: string): CgnError {
  const details = {
    engine: name,
    finding: code,
    model,
    known: [],
    problems: [],
    ...(fix === undefined ? {} : { fix }),
  };
  return new CgnError(FINDINGS[code].error, `Cannot start ${name}: ${what}. ${remedy}`, details) as CgnError;
}

/** @throws CgnError ENGINE_NOT_FOUND when argv[0] is no executable file, looked up in PATH as `execvp` does. */
export async function requireCommand(
  name: string,
  argv: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<void> {
  const command = argv[0] ?? "";
  const path = env["PATH"] ?? "";
  const tried = command.includes("/") ? [resolve(command)] : path.split(delimiter).map((dir) => join(dir, command));
  for (const file of tried) if (await isExecutable(file)) return;
  const where = command.includes("/") ? `"${command}" is no executable file` : `"${command}" is not in PATH`;
  throw new CgnError(
    "ENGINE_NOT_FOUND",
    `Cannot start ${name}: ${where}. Install the engine, or set its "binary" to the full path of the command`,
    { engine: name, command, path },
  );
}

async function isExecutable(file: string): Promise<boolean> {
  try {
    await access(file, constants.X_OK);
    return (await stat(file)).isFile();
  } catch {
    return false;
  }
}

async function requireFiles({ name, plan }: PreflightInput): Promise<void> {
  for (const { what, name: file } of plan.requires) {
    if (what !== "file" || (await exists(file))) continue;
    const from = isAbsolute(file) ? "" : ` (from ${process.cwd()})`;
    throw new CgnError(
      "MODEL_NOT_FOUND",
      `Cannot start ${name}: "${file}" does not exist${from}. Set [models."${plan.model}"].path to the model's file or folder`,
      { model: plan.model, known: [] },
    );
  }
}

const exists = (file: string): Promise<boolean> =>
  stat(file).then(
    () => true,
    () => false,
  );

async function requirePorts({ name, plan, heldPorts }: PreflightInput): Promise<void> {
  const host = new URL(plan.url).hostname.replace(/^\[|\]$/g, "");
  for (const { name: portName, port } of openedPorts(plan)) {
    if (heldPorts?.has(port)) continue;
    const found = await waitForPort(host, port);
    if (found === "free") continue;
    const { holder } = found;
    const by = holder === undefined ? "another process" : `${holder.command} (pid ${holder.pid})`;
    const isOurs = holder !== undefined && (await variableOf(holder.pid, RUN_VARIABLE)) !== undefined;
    const whose = isOurs
      ? `${by}, an engine that cgn started. Stop its agent, or end kept engines: cgn agent --end-kept`
      : `${by}. End that process, or choose another port`;
    throw new CgnError("PORT_IN_USE", `Cannot start ${name}: port ${port} (${portName}) is in use by ${whose}`, {
      engine: name,
      port,
      portName,
      ...(holder === undefined ? {} : { holder }),
    });
  }
}

/** A port that nobody is seen to hold may be a killed process's last breath: it is looked at again for so long. */
const DYING_MS = 1_000;
const LOOK_MS = 50;

async function waitForPort(
  host: string,
  port: number,
): Promise<"free" | { readonly holder: Awaited<ReturnType<typeof findPortHolder>> }> {
  for (let waited = 0; ; waited += LOOK_MS) {
    if (await isPortFree(host, port)) return "free";
    const holder = await findPortHolder(port);
    if (holder !== undefined || waited >= DYING_MS) return { holder };
    await setTimeout(LOOK_MS);
  }
}
