import type { AgentSettings, EngineSettings } from "../config/settings.ts";
import type { Clock } from "../core/clock.ts";
import type { WorkerId } from "../core/ids.ts";
import type { Log } from "../core/log.ts";
import type { Engine } from "../engines/engine.ts";
import type { Policy } from "../process/lifecycle.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { EngineStatus } from "./engine-status.ts";

/** What one engine in the agent's care is given. */
export interface EngineDeps {
  readonly settings: EngineSettings;
  readonly engine: Engine;
  readonly agent: AgentSettings;
  readonly clock: Clock;
  /** In [0, 1). */
  readonly random: () => number;
  readonly log: Log;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly metrics?: Metrics;
  /** `[agent].ready_probe_url`, when it is this engine's. */
  readonly probeUrl?: string;
  readonly inflight?: (id: WorkerId) => number;
  readonly policy?: Partial<Policy>;
  /** Of the process that it replaces: its own epochs are above it. */
  readonly epoch: number;
  readonly onChange: (status: EngineStatus) => void;
}
