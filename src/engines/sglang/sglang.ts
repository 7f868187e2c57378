import type { TokenizerSource } from "../../core/worker.ts";
import { userValue } from "../args.ts";
import { type Announcement, type Engine, tokenizerSource } from "../engine.ts";
import type { TokenLogprobs } from "../token-logprobs.ts";
import { sglangNeeds, sglangPeering } from "./requirements.ts";
import { sglangDisaggregation, sglangHandOver } from "./sglang-disagg.ts";
import { decodeSglangEvents, decodeSglangEventsInSteps } from "./sglang-events.ts";
import { eventSource, rankSources } from "./sglang-kv-events.ts";
import { contextTokens, launchSglang, pageTokens, type SglangInput, userArgsOf } from "./sglang-launch.ts";
import { sglangCell } from "./sglang-offload.ts";
import { type SglangOptions, sglangSchema } from "./sglang-options.ts";
import { sglangProbe } from "./sglang-probe.ts";
import { sglangVariants } from "./sglang-variants.ts";
import { SGLANG_VERSIONS } from "./versions.ts";

/** sglang/srt/entrypoints/openai/serving_chat.py and serving_completions.py, 0.5.23: `top_logprobs` 0 where it is left out. */
const LOGPROBS: TokenLogprobs = {
  chat: { logprobs: "true" },
  completion: { logprobs: "0" },
  streams: true,
  toolStreams: true,
  unasked: { chat: "null", completion: "null" },
};

/** SGLang: `python -m sglang.launch_server`. Facts of 0.5.23. */
export const sglang: Engine<SglangOptions> = {
  kind: "sglang",
  section: "sglang",
  sectionAliases: [],
  spawns: true,
  // A wrong model name is taken and echoed back; both kinds of request end when the client leaves. Text parts are joined by a
  // space (process_content_for_template_format in jinja_template_utils.py).
  traits: {
    reportsCachedTokens: true,
    usageOnlyWhenAsked: true,
    ignoresModelName: true,
    textPartsJoin: " ",
    // Of chats, completions, responses and /generate (openapi.json, 0.5.23).
    rankMember: "routed_dp_rank",
    // `OpenAIServingBase._parse_model_parameter`, SGLang 0.5.23: an adapter's name alone is taken for the base model.
    adapterJoin: ":",
    // Routes of openapi.json, 0.5.23.
    lacks: [
      "/rerank",
      "/v2/rerank",
      "/score",
      "/pooling",
      "/v1/audio/translations",
      "/v1/audio/speech",
      "/v1/images/generations",
      "/v1/images/edits",
      "/v1/moderations",
    ],
  },
  schema: sglangSchema,
  defaultPort: (options) => options.port ?? 8000,
  cell: sglangCell,
  launch: launchSglang,
  announce,
  versions: SGLANG_VERSIONS,
  needs: sglangNeeds,
  peering: sglangPeering,
  handOver: sglangHandOver,
  disaggregation: sglangDisaggregation,
  variants: sglangVariants,
  probe: sglangProbe,
  // sglang/srt/entrypoints/openai/serving_chat.py, _handle_last_assistant_message(), 0.5.23.
  chat: { lastAssistant: "user" },
  tokenLogprobs: LOGPROBS,
  continuesChat: { continue_final_message: "true" },
  // docs.sglang.ai, get_started/install: images are tagged with the version.
  image: (version) => `lmsysorg/sglang:v${version}`,
  newestVersion: SGLANG_VERSIONS.newest,
  decodeEvents: decodeSglangEvents,
  decodeEventsInSteps: decodeSglangEventsInSteps,
};

function announce(input: SglangInput): Announcement {
  const served = userValue(userArgsOf(input), ["--served-model-name"]);
  const maxModelTokens = contextTokens(input);
  const ranks = rankSources(input);
  return {
    blockTokens: pageTokens(input),
    kv: eventSource(input),
    ...(ranks === undefined ? {} : { ranks }),
    tokenizer: tokenizerOf(input),
    ...(served === undefined || served === input.model.name ? {} : { upstreamModel: served }),
    ...(maxModelTokens === undefined ? {} : { maxModelTokens }),
  };
}

/** `--tokenizer-path` in extra_args stands where the model's own `tokenizer` key is not written. */
function tokenizerOf(input: SglangInput): TokenizerSource {
  const tokenizer = input.model.tokenizer ?? userValue(userArgsOf(input), ["--tokenizer-path"]);
  return tokenizerSource({ ...input.model, ...(tokenizer === undefined ? {} : { tokenizer }) });
}
