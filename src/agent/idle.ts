import type { Clock } from "../core/clock.ts";
import type { EngineProbe } from "../engines/engine.ts";
import { probeHttp } from "../process/probe.ts";

export interface IdleInput {
  readonly url: string;
  readonly probe: EngineProbe;
  readonly clock: Clock;
  /** Requests on the worker, where a router of this process knows. Else the engine's own figures are read. */
  readonly inflight?: () => number;
  readonly signal: AbortSignal;
  /** The key that the engine asks for, where it is known. */
  readonly apiKey?: string;
}

const EVERY_MS = 100;
/** Looks in a row: a request that was routed a moment ago may not have arrived yet. */
const IDLE_LOOKS = 3;

/**
 * Wait until an engine has no request left. Never settles by itself for an engine of which nobody can tell; the signal ends it.
 */
export async function waitIdle(input: IdleInput): Promise<void> {
  for (let idle = 0; idle < IDLE_LOOKS && !input.signal.aborted; ) {
    idle = (await requestsOn(input)) === 0 ? idle + 1 : 0;
    if (idle < IDLE_LOOKS) await pause(input.clock, EVERY_MS, input.signal);
  }
}

async function requestsOn({ url, probe, inflight, apiKey }: IdleInput): Promise<number | undefined> {
  if (inflight !== undefined) return inflight();
  if (probe.metrics === undefined) return undefined;
  const { status, body } = await probeHttp({
    url: `${url}${probe.metrics.path}`,
    timeoutMs: 2_000,
    ...(apiKey === undefined ? {} : { apiKey }),
  });
  if (status !== 200) return undefined;
  const { running, waiting = 0 } = probe.metrics.parse(body);
  return running === undefined ? undefined : running + waiting;
}

/** Wait, or until the signal. */
export function pause(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      cancel();
      signal.removeEventListener("abort", done);
      resolve();
    };
    const cancel = clock.after(ms, done);
    if (signal.aborted) done();
    else signal.addEventListener("abort", done, { once: true });
  });
}
