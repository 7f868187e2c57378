import { type Announcement, type Engine, type LaunchInput, tokenizerSource } from "../engine.ts";
import { noneOnlyCell } from "../none-only.ts";
import { OPENAI_LOGPROBS } from "../token-logprobs.ts";
import { launchOpenaiCompat } from "./openai-compat-launch.ts";
import { type OpenaiCompatOptions, openaiCompatSchema } from "./openai-compat-options.ts";
import { openaiCompatProbe } from "./openai-compat-probe.ts";

/** Engines that are known keep whole blocks of 16 tokens, or more, or choose by shares: shorter prefixes promise nothing. */
const MIN_TOKENS = 16;

/** Any endpoint with OpenAI's API that somebody else runs. Nothing is spawned. */
export const openaiCompat: Engine<OpenaiCompatOptions> = {
  kind: "openai_compat",
  section: "openai_compat",
  sectionAliases: [],
  spawns: false,
  traits: { usageOnlyWhenAsked: true },
  schema: openaiCompatSchema,
  defaultPort: () => 8000,
  cell: (offload, role) => noneOnlyCell("An openai_compat endpoint", offload, role),
  launch: launchOpenaiCompat,
  announce,
  variants: [],
  probe: openaiCompatProbe,
  tokenLogprobs: OPENAI_LOGPROBS,
};

function announce({ options, model }: LaunchInput<OpenaiCompatOptions>): Announcement {
  const upstreamModel = options.upstream_model;
  return {
    kv: { type: "history", entries: options.cached_prompts, minTokens: MIN_TOKENS },
    tokenizer: tokenizerSource(model),
    ...(upstreamModel === undefined || upstreamModel === model.name ? {} : { upstreamModel }),
    ...(model.maxModelLen === undefined ? {} : { maxModelTokens: model.maxModelLen }),
  };
}
