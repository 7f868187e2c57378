import type { Timing } from "../model/output.ts";
import type { TimeParts } from "./measures.ts";
import type { TraceRequest } from "./trace.ts";
import type { VirtualChoice, VirtualRouter } from "./virtual-router.ts";

/** A request under way. */
export interface Job {
  readonly id: string;
  readonly request: TraceRequest;
  readonly router: VirtualRouter;
  readonly lane: number;
  readonly arrivedAt: number;
  readonly parts: TimeParts;
  /** Engines that failed under it. */
  readonly tried: Set<number>;
  /** `whole`: prompt and answer on one engine. */
  leg: "whole" | "prefill" | "decode";
  choice: VirtualChoice | undefined;
  /** When the leg was sent to its engine. */
  sentAt: number;
  /** Of the leg. */
  legFirstAt: number | undefined;
  /** Of the prefill leg, whose blocks are held. */
  prefill:
    | {
        readonly engine: number;
        readonly foundBlocks: number;
        readonly cachedTokens: number;
        readonly predictedBlocks: number;
      }
    | undefined;
}

export function newJob(id: string, request: TraceRequest, router: VirtualRouter, lane: number, arrivedAt: number): Job {
  return {
    id,
    request,
    router,
    lane,
    arrivedAt,
    parts: { overhead: 0, queue: 0, fetch: 0, prefill: 0, transfer: 0, decode: 0 },
    tried: new Set(),
    leg: "whole",
    choice: undefined,
    sentAt: arrivedAt,
    legFirstAt: undefined,
    prefill: undefined,
  };
}

/** Add what an engine says of a leg's way to its first token. */
export function addTiming(job: Job, timing: Timing): void {
  const { parts } = job;
  parts.overhead += timing.overheadMs;
  parts.queue += timing.queueMs;
  parts.fetch += timing.fetchMs;
  parts.prefill += timing.prefillMs;
  parts.transfer += timing.transferMs;
}
