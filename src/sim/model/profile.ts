/** How long an engine's work takes. One step computes some prompt tokens and one token of each running answer. */
export interface EngineProfile {
  readonly name: string;
  /** Where the numbers come from. */
  readonly source: string;
  /** Cost of any step, in milliseconds. */
  readonly stepMs: number;
  readonly prefillMsPerToken: number;
  /** Cost of each running answer in a step. */
  readonly decodeMsPerSequence: number;
  /** Cost of each token of context that running answers attend to in a step. */
  readonly contextMsPerToken: number;
}

/** The work of one step. */
export interface StepWork {
  readonly prefillTokens: number;
  readonly decodeSequences: number;
  /** Sum over the running answers. */
  readonly contextTokens: number;
}

/** The profiles that ship: by name, as `--sim-profile` takes them. */
export const PROFILES: Readonly<Record<string, EngineProfile>> = {
  instant: {
    name: "instant",
    source: "by definition: work takes no time",
    stepMs: 0,
    prefillMsPerToken: 0,
    decodeMsPerSequence: 0,
    contextMsPerToken: 0,
  },
  "cpu-small": {
    name: "cpu-small",
    source:
      "llama.cpp server, SmolLM2-135M Q4_1, 1 to 2 threads of a shared 2-core machine, 2026-11-29: prefill 458 tokens/s, decode 114 to 131 tokens/s alone",
    stepMs: 6,
    prefillMsPerToken: 1000 / 458,
    decodeMsPerSequence: 2,
    contextMsPerToken: 0.0005,
  },
  default: {
    name: "default",
    source: "round numbers in the range of an 8B model on one data-centre GPU; an assumption, not a measurement",
    stepMs: 8,
    prefillMsPerToken: 0.1,
    decodeMsPerSequence: 0.05,
    contextMsPerToken: 0.00002,
  },
};

/** Milliseconds that one step takes. */
export function stepDurationMs(profile: EngineProfile, work: StepWork): number {
  return (
    profile.stepMs +
    profile.prefillMsPerToken * work.prefillTokens +
    profile.decodeMsPerSequence * work.decodeSequences +
    profile.contextMsPerToken * work.contextTokens
  );
}
