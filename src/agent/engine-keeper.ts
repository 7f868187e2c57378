import type { WorkerId } from "../core/ids.ts";
import type { StopRequest } from "../process/stop-request.ts";
import type { EngineStatus } from "./engine-status.ts";

/**
 * The handle on one engine for whoever decides when it runs (a swap, a reload, a person). What is asked for here is never a crash:
 * it counts no attempt and leaves no error, and the agent does not start an engine again that was stopped here.
 *
 * `status().worker` has the state that routers see and the epoch, which grows with each process; `status().pid` the process.
 */
export interface EngineKeeper {
  readonly id: WorkerId;
  /**
   * Have it run. Nothing happens when it does; one that is draining is taken back with its cache; one that is already told to end
   * is started anew as soon as it is gone, so there are never two processes.
   */
  start(): void;
  /** Settles when it is ready, has failed, or was stopped (an adopted one: when it was asked once). */
  settled(): Promise<void>;
  /**
   * Out of routing, requests end within `drainMs`, SIGTERM, SIGKILL. Settles when nothing of it runs any more, or when a `start()`
   * took it back. An adopted engine is left alone.
   */
  stop(request?: StopRequest): Promise<void>;
  /** Take it out of routing, or back in, without touching the process. */
  cordon(on: boolean): void;
  /** No request is left on it, or `signal` fired. */
  idle(signal: AbortSignal): Promise<void>;
  status(): EngineStatus;
}

/** An engine in the agent's care, its own process or not. */
export interface ManagedEngine extends EngineKeeper {
  /** Leave it running and look away. */
  release(): Promise<void>;
  /** What its launch made it ask of everyone. A secret. */
  readonly apiKey?: string;
}
