import type { Clock } from "../core/clock.ts";
import { CgnError } from "../core/errors.ts";
import type { EngineCall, SleepCalls } from "../engines/engine.ts";
import { probeHttp } from "../process/probe.ts";

/** Weights of hundreds of GB move in minutes. */
const CALL_MS = 280_000;

export interface Sleeper {
  /** @throws CgnError ENGINE_NOT_READY when it does not fall asleep: then it must be ended instead */
  sleep(): Promise<void>;
  /** @throws CgnError ENGINE_NOT_READY when it does not wake: then it must be started anew */
  wake(): Promise<void>;
}

/** Puts a running engine to sleep and wakes it by its own HTTP calls. */
export function createSleeper(url: string, calls: SleepCalls, apiKey: string | undefined): Sleeper {
  const carryOut = async (what: string, list: readonly EngineCall[]): Promise<void> => {
    for (const { path, body } of list) {
      const { status, body: said } = await probeHttp({
        url: url + path,
        method: "POST",
        timeoutMs: CALL_MS,
        ...(body === undefined ? {} : { body }),
        ...(apiKey === undefined ? {} : { apiKey }),
      });
      if (status >= 200 && status < 300) continue;
      const is = status === 0 ? "it gave no answer" : `it answered ${status}`;
      const tail = said.trim() === "" ? "" : ` (${said.trim().slice(0, 200)})`;
      throw new CgnError("ENGINE_NOT_READY", `Cannot ${what} the engine by ${path}: ${is}${tail}. Look at its log`, {
        url,
      });
    }
  };
  return { sleep: () => carryOut("put to sleep", calls.sleep), wake: () => carryOut("wake", calls.wake) };
}

/** Wait until `holds`, looking this often; false when `signal` fired first. */
export async function waitFor(
  holds: () => boolean,
  everyMs: number,
  clock: Clock,
  signal: AbortSignal,
): Promise<boolean> {
  while (!signal.aborted) {
    if (holds()) return true;
    await new Promise<void>((resolve) => clock.after(everyMs, resolve));
  }
  return false;
}
