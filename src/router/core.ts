import type { Access } from "../access/access.ts";
import type { AnswerSettings, CascadeChain } from "../config/settings.ts";
import type { Clock } from "../core/clock.ts";
import type { WorkerId } from "../core/ids.ts";
import type { Log } from "../core/log.ts";
import type { PrefixKnowledge } from "../core/prefix-knowledge.ts";
import type { Upstreams } from "../http/upstream.ts";
import type { Learning } from "../routing/learning.ts";
import type { LoadBook } from "../routing/load.ts";
import type { Tracer } from "../telemetry/tracer.ts";
import type { Abilities } from "./abilities.ts";
import type { Admissions } from "./admit.ts";
import type { BookShare } from "./book-share.ts";
import type { Chooser } from "./choose.ts";
import type { Splitter } from "./choose-way.ts";
import type { CorsRules } from "./cors.ts";
import type { DecisionLog } from "./decisions.ts";
import type { DemandReport } from "./demand-report.ts";
import type { EngineGauges } from "./engine-gauges.ts";
import type { Federation } from "./federation.ts";
import type { Fleet } from "./fleet.ts";
import type { HotPrefixes } from "./hot-prefixes.ts";
import type { RendererSource } from "./render.ts";
import type { RequestLog } from "./request-log.ts";
import type { RouterMetrics } from "./router-metrics.ts";
import type { TrafficHistory } from "./traffic-history.ts";
import type { WaitRoom } from "./wait-room.ts";
import type { WorkerHealth } from "./worker-health.ts";

/** The part of `[router]` that the request path reads. */
export interface PathSettings {
  readonly maxBodyBytes: number;
  readonly policy: string;
  /** Web pages that may call; absent: none. */
  readonly cors?: CorsRules;
}

/** All that a request meets on its way: made once by `createRouter()`, passed to each step. */
export interface RouterCore {
  readonly settings: PathSettings;
  /** Keys, tokens, limits. */
  readonly access: Access;
  /** Keys that engines ask for. */
  readonly engineKey: ((worker: WorkerId) => string | undefined) | undefined;
  /** Longest prompt by model, where one is written. */
  readonly maxPromptTokens: ReadonlyMap<string, number>;
  /** Names that stand for several models, asked one after the other. */
  readonly cascades: Readonly<Record<string, CascadeChain>>;
  /** Other clusters; undefined: there are none. */
  readonly federation: Federation | undefined;
  readonly fleet: Fleet;
  readonly knowledge: PrefixKnowledge;
  readonly renderers: RendererSource;
  readonly loads: LoadBook;
  readonly health: WorkerHealth;
  /** Which worker serves which API. */
  readonly abilities: Abilities;
  readonly learning: Learning;
  readonly chooser: Chooser;
  /** Of requests that are computed by two workers. */
  readonly splitter: Splitter;
  /** Requests whose model is being loaded. */
  readonly waits: WaitRoom;
  readonly demand: DemandReport | undefined;
  /** What is told to other routers, and what they tell. */
  readonly share: BookShare | undefined;
  readonly admissions: Admissions;
  readonly upstreams: Upstreams;
  readonly decisions: DecisionLog;
  /** `[router].request_log`, where written. */
  readonly requestLog: RequestLog | undefined;
  readonly metrics: RouterMetrics;
  /** For the dashboard: the last day, what prompts have in common, what engines say of their load. */
  readonly history: TrafficHistory;
  readonly prefixes: HotPrefixes;
  readonly gauges: EngineGauges;
  /** `[tracing]`, where a collector is named. */
  readonly tracer: Tracer | undefined;
  /** How long answers of a model may take. */
  readonly answersOf: (model: string) => AnswerSettings;
  /** 0 to 1. */
  readonly random: () => number;
  readonly clock: Clock;
  readonly log: Log;
}
