import type { Clock } from "../core/clock.ts";
import type { Log } from "../core/log.ts";
import type { PrefixKnowledge } from "../core/prefix-knowledge.ts";
import type { Upstreams } from "../http/upstream.ts";
import type { Learning } from "../routing/learning.ts";
import type { LoadBook } from "../routing/load.ts";
import type { Admissions } from "./admit.ts";
import type { Chooser } from "./choose.ts";
import type { DecisionLog } from "./decisions.ts";
import type { DemandReport } from "./demand-report.ts";
import type { Fleet } from "./fleet.ts";
import type { RendererSource } from "./render.ts";
import type { RequestLog } from "./request-log.ts";
import type { RouterMetrics } from "./router-metrics.ts";
import type { WaitRoom } from "./wait-room.ts";
import type { WorkerHealth } from "./worker-health.ts";

/** The part of `[router]` that the request path reads. */
export interface PathSettings {
  readonly maxBodyBytes: number;
  readonly policy: string;
}

/** All that a request meets on its way: made once by `createRouter()`, passed to each step. */
export interface RouterCore {
  readonly settings: PathSettings;
  readonly fleet: Fleet;
  readonly knowledge: PrefixKnowledge;
  readonly renderers: RendererSource;
  readonly loads: LoadBook;
  readonly health: WorkerHealth;
  readonly learning: Learning;
  readonly chooser: Chooser;
  /** Requests whose model is being loaded. */
  readonly waits: WaitRoom;
  readonly demand: DemandReport | undefined;
  readonly admissions: Admissions;
  readonly upstreams: Upstreams;
  readonly decisions: DecisionLog;
  /** `[router].request_log`, where written. */
  readonly requestLog: RequestLog | undefined;
  readonly metrics: RouterMetrics;
  readonly clock: Clock;
  readonly log: Log;
}
