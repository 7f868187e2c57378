import { create } from "@bufbuild/protobuf";
import { KV_ALARM_CODES, type KvAlarmCode, type KvCanonicity, type KvSourceStatus } from "../core/kv-status.ts";
import {
  AlarmSchema,
  type Canonicity,
  CanonicitySchema,
  type Source,
  TruthWindowSchema,
} from "./gen/cgn/kv/v1/kv_pb.ts";

type Truth = Pick<KvSourceStatus, "canonicity" | "truth" | "alarms">;

/** The parts of a source's message that tell how far it can be believed. */
export function truthToMessage({
  canonicity,
  truth = [],
  alarms = [],
}: Truth): Pick<Source, "truth" | "alarms"> & { canonicity?: Canonicity } {
  return {
    ...(canonicity === undefined ? {} : { canonicity: canonicityToMessage(canonicity) }),
    truth: truth.map((window) =>
      create(TruthWindowSchema, {
        seconds: window.seconds,
        requests: BigInt(window.requests),
        exact: BigInt(window.exact),
        inFlight: BigInt(window.inFlight),
        unexplained: BigInt(window.unexplained),
        predictedTokens: BigInt(window.predictedTokens),
        reportedTokens: BigInt(window.reportedTokens),
      }),
    ),
    alarms: alarms.map(({ code, message, forMs }) =>
      create(AlarmSchema, { code, message, forMs: BigInt(Math.max(0, Math.round(forMs))) }),
    ),
  };
}

/** The inverse; alarms of codes that are not known here are left out. */
export function truthFromMessage({ canonicity, truth, alarms }: Source): Truth {
  return {
    ...(canonicity === undefined
      ? {}
      : {
          canonicity: {
            state: canonicity.state as KvCanonicity["state"],
            detail: canonicity.detail,
            checkedTokens: Number(canonicity.checkedTokens),
            skippedTokens: Number(canonicity.skippedTokens),
            sentTokens: Number(canonicity.sentTokens),
            uncountedBlocks: Number(canonicity.uncountedBlocks),
          },
        }),
    truth: truth.map((window) => ({
      seconds: window.seconds,
      requests: Number(window.requests),
      exact: Number(window.exact),
      inFlight: Number(window.inFlight),
      unexplained: Number(window.unexplained),
      predictedTokens: Number(window.predictedTokens),
      reportedTokens: Number(window.reportedTokens),
    })),
    alarms: alarms.flatMap(({ code, message, forMs }) =>
      (KV_ALARM_CODES as readonly string[]).includes(code)
        ? [{ code: code as KvAlarmCode, message, forMs: Number(forMs) }]
        : [],
    ),
  };
}

function canonicityToMessage(canonicity: KvCanonicity) {
  return create(CanonicitySchema, {
    state: canonicity.state,
    detail: canonicity.detail,
    checkedTokens: BigInt(canonicity.checkedTokens),
    skippedTokens: BigInt(canonicity.skippedTokens),
    sentTokens: BigInt(canonicity.sentTokens),
    uncountedBlocks: BigInt(canonicity.uncountedBlocks),
  });
}
