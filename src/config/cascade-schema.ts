import { z } from "zod";
import { about, flag, textList } from "./schema-fields.ts";
import type { CascadeChain, ModelSettings } from "./settings.ts";

/** By how much of an answer it is judged, where nothing else is written. */
const JUDGE_TOKENS = 32;

const threshold = () => z.number().max(0);

/** `[router.cascade]`. */
export const cascadeSection = z
  .strictObject({
    enabled: flag('Ask the chains of models that `[models."NAME"].cascade` names', false),
    confidence_threshold: about(
      threshold().default(-1.5),
      "Mean log probability of an answer's tokens below which the next model is asked",
      { unit: "log probability" },
    ),
    judge_tokens: about(
      z.int().min(0).default(JUDGE_TOKENS),
      "So many first tokens of an answer are judged; a stream is held back for them at most. `0`: the whole answer",
      { unit: "tokens" },
    ),
    unjudged: about(
      z.enum(["next", "keep"]).default("next"),
      "What becomes of an answer without log probabilities (other APIs, engines that tell none): `next` asks the next model, `keep` gives it to the client",
    ),
  })
  .prefault({});

/** Keys of `[models."NAME"]`. */
export const modelCascadeKeys = {
  cascade: about(
    textList().prefault([]),
    "Models to ask after this one when it is not sure (chain), while `[router.cascade].enabled`. A name that no engine serves stands for the chain alone",
  ),
  cascade_threshold: about(
    z.union([threshold(), z.array(threshold())]).optional(),
    "The same as `[router.cascade].confidence_threshold` for this chain; a list has one for each model but the last",
    { unit: "log probability", defaultText: "`[router.cascade].confidence_threshold`" },
  ),
};

/** What is written of a chain's thresholds, as a list. */
export function thresholdsOf(written: number | readonly number[] | undefined): readonly number[] {
  if (written === undefined) return [];
  return typeof written === "number" ? [written] : written;
}

/** The chains that hold, by name. */
export function cascadeChains(
  section: z.output<typeof cascadeSection>,
  models: readonly Pick<ModelSettings, "name" | "cascade" | "cascadeThresholds">[],
): Readonly<Record<string, CascadeChain>> {
  if (!section.enabled) return {};
  const { confidence_threshold: fallback, judge_tokens: tokens, unjudged } = section;
  const chains = models.filter(({ cascade }) => cascade.length > 0);
  return Object.fromEntries(
    chains.map(({ name, cascade, cascadeThresholds }) => {
      const thresholds = cascadeThresholds.length === 0 ? [fallback] : cascadeThresholds;
      return [name, { name, models: cascade, thresholds, tokens, unjudged }];
    }),
  );
}
