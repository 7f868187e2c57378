import { execFile } from "node:child_process";
import type { PowerReading, PowerSource } from "./power.ts";

const QUERY = ["--query-gpu=index,power.draw,power.limit", "--format=csv,noheader,nounits"];
const TIMEOUT_MS = 10_000;

/**
 * Read what `nvidia-smi --query-gpu=index,power.draw,power.limit --format=csv,noheader,nounits` says, in watts. A GPU that tells no draw
 * (`[N/A]`, `[Not Supported]`) is left out.
 */
export function parseNvidiaPower(text: string): ReadonlyMap<number, PowerReading> {
  const found = new Map<number, PowerReading>();
  for (const line of text.split("\n")) {
    const [index = "", draw = "", limit = ""] = line.split(",").map((cell) => cell.trim());
    const watts = numberOf(draw);
    if (!/^\d+$/.test(index) || watts === undefined) continue;
    const limitWatts = numberOf(limit);
    found.set(Number(index), { watts, ...(limitWatts === undefined ? {} : { limitWatts }) });
  }
  return found;
}

const numberOf = (text: string): number | undefined => (/^\d+(\.\d+)?$/.test(text) ? Number(text) : undefined);

/** NVIDIA's GPUs of this host, by `nvidia-smi` of the PATH. */
export function nvidiaPower(env: Readonly<Record<string, string | undefined>>): PowerSource {
  return {
    name: "nvidia-smi",
    async read() {
      const gpus = parseNvidiaPower(await run(env));
      if (gpus.size === 0) throw new Error("nvidia-smi tells the power of no GPU");
      return { gpus };
    },
  };
}

function run(env: Readonly<Record<string, string | undefined>>): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile("nvidia-smi", QUERY, { env: env as NodeJS.ProcessEnv, timeout: TIMEOUT_MS }, (error, stdout) => {
      if (error === null) resolve(stdout);
      else reject(error.code === "ENOENT" ? new Error("there is no nvidia-smi") : error);
    });
  });
}
