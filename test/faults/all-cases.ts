import { CONNECT_CASES, HEAD_CASES } from "./cases-before.ts";
import { STREAM_CASES, WHOLE_CASES } from "./cases-body.ts";
import { LEAVING_CASES, REQUEST_CASES } from "./cases-client.ts";
import { CONTINUE_CASES } from "./cases-continue.ts";
import { HEALTH_CASES, STATUS_CASES } from "./cases-health.ts";
import type { FaultCase } from "./rig.ts";

/** Every case of the fault matrix, by the phase in which the fault happens. */
export const ALL_CASES: Readonly<Record<string, readonly FaultCase[]>> = {
  connect: CONNECT_CASES,
  head: HEAD_CASES,
  "whole answer": WHOLE_CASES,
  stream: STREAM_CASES,
  "continued stream": CONTINUE_CASES,
  status: STATUS_CASES,
  "client leaves": LEAVING_CASES,
  request: REQUEST_CASES,
  health: HEALTH_CASES,
};
