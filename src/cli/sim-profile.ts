import type { EngineProfile } from "../sim/model/profile.ts";

export { findProfile } from "../sim/profiles/find-profile.ts";

/** GPUs that one engine of a profile computes on. */
export function gpusOf(profile: EngineProfile): number {
  return profile.gpus ?? 1;
}
