/** How long an engine's work takes. One step computes some prompt tokens and one token of each running answer. */
export interface EngineProfile {
  readonly name: string;
  /** Model, weights, hardware and engine, in one line. */
  readonly about?: string;
  /** Where the numbers come from. */
  readonly source: string;
  /** `measured` on a running engine. `cited`: reckoned from published numbers. `assumed`: neither. Default `assumed`. */
  readonly kind?: "measured" | "cited" | "assumed";
  /** How far predicted times may be off, in percent: measured as the residual, or judged. */
  readonly errorPercent?: number;
  /** Cost of any step, in milliseconds: reading the weights, launching kernels. */
  readonly stepMs: number;
  readonly prefillMsPerToken: number;
  /** Attention within prompts: cost of each pair of a computed token and one before it. Default 0. */
  readonly prefillMsPerPair?: number;
  /** Chunks of prompts that are narrower than the tiles in which an engine computes attention. */
  readonly narrowChunks?: NarrowChunks;
  /** Cost of each running answer in a step. */
  readonly decodeMsPerSequence: number;
  /**
   * Where that is not all: what a step with so many answers takes without their context, measured, in ascending order. Interpolated
   * between two of them; below the first and beyond the last each answer costs `decodeMsPerSequence`.
   */
  readonly decodeStepMs?: readonly DecodeStep[];
  /** Cost of each token of context that running answers attend to in a step. */
  readonly contextMsPerToken: number;
  /** Cost of any request before it is in the engine's queue: HTTP, template, tokenizer. Default 0. */
  readonly requestMs?: number;
  /** GPUs that one engine has. Default 1. */
  readonly gpus?: number;
  /** Bytes of keys and values a token, on all GPUs of the engine together. */
  readonly kvBytesPerToken?: number;
  /** Memory for keys and values on the device, on all GPUs together. */
  readonly deviceKvBytes?: number;
  /** Reading keys and values back from a tier, where it is known; GB are 10^9 bytes. */
  readonly tiers?: Readonly<Partial<Record<"host" | "disk" | "shared" | "transfer", LinkSpeed>>>;
}

/** A chunk of fewer than `tokens` prompt tokens costs `msPerPair` instead of the profile's `prefillMsPerPair`. */
export interface NarrowChunks {
  readonly tokens: number;
  readonly msPerPair: number;
}

export interface DecodeStep {
  readonly sequences: number;
  readonly ms: number;
}

export interface LinkSpeed {
  readonly gbPerS: number;
  readonly latencyMs: number;
}

/** The work of one step. */
export interface StepWork {
  readonly prefillTokens: number;
  /** Pairs of a computed prompt token and one before it, but for those of narrow chunks. Default 0. */
  readonly prefillPairs?: number;
  /** The same, of narrow chunks. Default 0. */
  readonly narrowPairs?: number;
  readonly decodeSequences: number;
  /** Sum over the running answers. */
  readonly contextTokens: number;
}

/** The profiles that are no machine's: by name, as `--sim-profile` takes them. */
export const PROFILES: Readonly<Record<string, EngineProfile>> = {
  instant: {
    name: "instant",
    source: "by definition: work takes no time",
    kind: "assumed",
    errorPercent: 0,
    stepMs: 0,
    prefillMsPerToken: 0,
    decodeMsPerSequence: 0,
    contextMsPerToken: 0,
  },
  "cpu-small": {
    name: "cpu-small",
    source:
      "llama.cpp server, SmolLM2-135M Q4_1, 1 to 2 threads of a shared 2-core machine, 2026-11-29: prefill 458 tokens/s, decode 114 to 131 tokens/s alone",
    kind: "measured",
    errorPercent: 50,
    stepMs: 6,
    prefillMsPerToken: 1000 / 458,
    decodeMsPerSequence: 2,
    contextMsPerToken: 0.0005,
  },
  default: {
    name: "default",
    source: "round numbers in the range of an 8B model on one data-centre GPU; an assumption, not a measurement",
    kind: "assumed",
    errorPercent: 100,
    stepMs: 8,
    prefillMsPerToken: 0.1,
    decodeMsPerSequence: 0.05,
    contextMsPerToken: 0.00002,
  },
};

/** Milliseconds that one step takes. */
export function stepDurationMs(profile: EngineProfile, work: StepWork): number {
  return (
    decodeStepMs(profile, work.decodeSequences) +
    profile.prefillMsPerToken * work.prefillTokens +
    (profile.prefillMsPerPair ?? 0) * (work.prefillPairs ?? 0) +
    (profile.narrowChunks?.msPerPair ?? 0) * (work.narrowPairs ?? 0) +
    profile.contextMsPerToken * work.contextTokens
  );
}

/** A step with so many answers and nothing else, without their context. */
function decodeStepMs(
  { stepMs, decodeMsPerSequence, decodeStepMs: measured }: EngineProfile,
  sequences: number,
): number {
  if (measured === undefined || sequences === 0) return stepMs + decodeMsPerSequence * sequences;
  const next = measured.findIndex((each) => each.sequences >= sequences);
  const above = measured.at(next)!;
  const below = measured[next - 1];
  if (next <= 0 || below === undefined) return above.ms + decodeMsPerSequence * (sequences - above.sequences);
  const share = (sequences - below.sequences) / (above.sequences - below.sequences);
  return below.ms + share * (above.ms - below.ms);
}
