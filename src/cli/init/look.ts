import { totalmem } from "node:os";
import type { Engine } from "../../engines/engine.ts";
import { sampleInput } from "../../engines/sample-input.ts";
import { readHost } from "../../process/host/read-host.ts";
import { isPortFree } from "../../process/port-holder.ts";
import { findEngines } from "./find-engines.ts";
import { findModels } from "./find-models.ts";
import { findRunning } from "./find-running.ts";
import type { HostLook } from "./questions.ts";

/** Look at this host: engines installed and running, models, GPUs, memory. Starts and changes nothing. */
export async function lookAtHost(env: Readonly<Record<string, string | undefined>>, cwd: string): Promise<HostLook> {
  const [engines, answering, models, host] = await Promise.all([
    findEngines(env, cwd),
    findRunning(),
    findModels(env, cwd),
    readHost(true),
  ]);
  return {
    installed: engines.installed,
    running: answering.running,
    silent: [
      ...engines.silent.map((python) => `${python} did not tell which packages it has: engines in it are not known`),
      ...answering.silent.map((url) => `${url} did not answer in time: whether an engine runs there is not known`),
    ],
    models,
    gpus: host.gpus,
    memoryBytes: host.memoryBytes ?? totalmem(),
    freePort,
    layoutOf,
  };
}

/** Ports that are tried from the wanted one on. */
const TRIES = 100;

/** The wanted port where none of a hundred is free: `cgn check --host` then says who has it. */
export async function freePort(from: number, taken: readonly number[]): Promise<number> {
  for (let port = from; port < Math.min(from + TRIES, 65_536); port += 1) {
    if (!taken.includes(port) && (await isPortFree("127.0.0.1", port))) return port;
  }
  return from;
}

export function layoutOf(engine: Engine): "folder" | "gguf" | "any" {
  if (!engine.spawns) return "any";
  const input = sampleInput(engine.schema.parse(engine.installs?.[0] ?? {}));
  return engine.needs?.(input, engine.launch(input))?.model?.layout ?? "any";
}
