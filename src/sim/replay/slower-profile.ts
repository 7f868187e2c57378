import type { EngineProfile } from "../model/profile.ts";

/** The same engine, with all of its work taking `factor` times as long. */
export function slowerProfile(profile: EngineProfile, factor: number): EngineProfile {
  return {
    ...profile,
    stepMs: profile.stepMs * factor,
    prefillMsPerToken: profile.prefillMsPerToken * factor,
    ...(profile.prefillMsPerPair === undefined ? {} : { prefillMsPerPair: profile.prefillMsPerPair * factor }),
    decodeMsPerSequence: profile.decodeMsPerSequence * factor,
    contextMsPerToken: profile.contextMsPerToken * factor,
    ...(profile.requestMs === undefined ? {} : { requestMs: profile.requestMs * factor }),
  };
}
