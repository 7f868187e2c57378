import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "../core/clock.ts";
import { type PowerReading, type PowerSource, sumPower } from "./power.ts";

const ROOT = "/sys/class/powercap";

interface Counter {
  readonly uj: number;
  readonly atMs: number;
}

/**
 * Processor packages by Linux' powercap files (Documentation/power/powercap/powercap.rst): energy counters in microjoules, which begin
 * anew at `max_energy_range_uj`; the long-term limit is constraint 0. Power is the difference of two readings, so the first one gives none.
 */
export function raplPower(clock: Clock, root: string = ROOT): PowerSource {
  const before = new Map<string, Counter>();
  return {
    name: "rapl",
    async read() {
      const packages = (await names(root)).filter((name) => /^intel-rapl:\d+$/.test(name));
      if (packages.length === 0) throw new Error(`${root} has no packages`);
      const readings: PowerReading[] = [];
      for (const name of packages) {
        const reading = await readPackage(join(root, name), name, clock.now(), before);
        if (reading !== undefined) readings.push(reading);
      }
      const host = sumPower(readings);
      return { gpus: new Map(), ...(host === undefined ? {} : { host }) };
    },
  };
}

async function names(root: string): Promise<readonly string[]> {
  try {
    return await readdir(root);
  } catch {
    throw new Error(`there is no ${root}`);
  }
}

async function readPackage(
  dir: string,
  name: string,
  atMs: number,
  before: Map<string, Counter>,
): Promise<PowerReading | undefined> {
  // Since 2020 only root may read it.
  const uj = await numberIn(join(dir, "energy_uj"));
  if (uj === undefined) throw new Error(`${join(dir, "energy_uj")} cannot be read by this user`);
  const last = before.get(name);
  before.set(name, { uj, atMs });
  if (last === undefined || atMs <= last.atMs) return undefined;
  const range = (await numberIn(join(dir, "max_energy_range_uj"))) ?? 0;
  const spent = uj >= last.uj ? uj - last.uj : uj + range - last.uj;
  const limitUw = await numberIn(join(dir, "constraint_0_power_limit_uw"));
  const watts = spent / 1_000 / (atMs - last.atMs);
  return { watts, ...(limitUw === undefined || limitUw === 0 ? {} : { limitWatts: limitUw / 1e6 }) };
}

async function numberIn(file: string): Promise<number | undefined> {
  try {
    const text = (await readFile(file, "utf8")).trim();
    return /^\d+$/.test(text) ? Number(text) : undefined;
  } catch {
    return undefined;
  }
}
