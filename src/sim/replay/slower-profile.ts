import type { EngineProfile } from "../model/profile.ts";

/** The same engine, with all of its work taking `factor` times as long. */
export function slowerProfile(profile: EngineProfile, factor: number): EngineProfile {
  const { narrowChunks, decodeStepMs } = profile;
  return {
    ...profile,
    stepMs: profile.stepMs * factor,
    prefillMsPerToken: profile.prefillMsPerToken * factor,
    ...(profile.prefillMsPerPair === undefined ? {} : { prefillMsPerPair: profile.prefillMsPerPair * factor }),
    ...(narrowChunks === undefined
      ? {}
      : { narrowChunks: { ...narrowChunks, msPerPair: narrowChunks.msPerPair * factor } }),
    decodeMsPerSequence: profile.decodeMsPerSequence * factor,
    ...(decodeStepMs === undefined
      ? {}
      : { decodeStepMs: decodeStepMs.map((step) => ({ ...step, ms: step.ms * factor })) }),
    contextMsPerToken: profile.contextMsPerToken * factor,
    ...(profile.requestMs === undefined ? {} : { requestMs: profile.requestMs * factor }),
  };
}
