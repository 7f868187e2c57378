import { userWrote } from "../args.ts";
import type { Engine } from "../engine.ts";
import type { TokenLogprobs } from "../token-logprobs.ts";
import { vllmNeeds, vllmPeering } from "./requirements.ts";
import { VLLM_VERSIONS } from "./versions.ts";
import { VLLM_CHAT } from "./vllm-chat.ts";
import { RULES } from "./vllm-context.ts";
import { vllmDisaggregation, vllmHandOver } from "./vllm-disagg.ts";
import { decodeVllmEvents, decodeVllmEventsInSteps } from "./vllm-events.ts";
import { vllmAnnounce, vllmLaunch } from "./vllm-launch.ts";
import { vllmCell } from "./vllm-offload.ts";
import { type VllmOptions, vllmOptions } from "./vllm-options.ts";
import { vllmProbe } from "./vllm-probe.ts";
import { vllmSleeps } from "./vllm-sleep.ts";
import { TRANSFER_FLAG } from "./vllm-user.ts";
import { vllmVariants } from "./vllm-variants.ts";

/** With `top_logprobs` left out, and with 0 for completions, only the generated token's own is told (protocol.py of both, 0.32.0). */
const LOGPROBS: TokenLogprobs = {
  chat: { logprobs: "true" },
  completion: { logprobs: "0" },
  streams: true,
  toolStreams: true,
  unasked: { chat: "null", completion: "null" },
};

/** vLLM: `vllm serve`. */
export const vllm: Engine<VllmOptions> = {
  kind: "vllm",
  section: "vllm",
  sectionAliases: [],
  spawns: true,
  traits: {
    reportsCachedTokens: true,
    usageOnlyWhenAsked: true,
    stripKvTransferParams: true,
    tokenizesChats: true,
    // A producer or consumer of KV answers requests without kv_transfer_params as any other (tried on 0.32.0).
    servesWhole: true,
    // vllm/entrypoints/generate/base/serving.py, _get_data_parallel_rank(), 0.32.0.
    rankHeader: "x-data-parallel-rank",
    // Routers of vllm/entrypoints, 0.32.0. What the served model cannot do (embed, rank, transcribe) has no route either.
    lacks: [
      "/v1/tokenize",
      "/v1/detokenize",
      "/v1/classify",
      "/v1/audio/speech",
      "/v1/images/generations",
      "/v1/images/edits",
      "/v1/moderations",
    ],
  },
  schema: vllmOptions,
  defaultPort: () => 8000,
  cell: vllmCell,
  writesTransfer: (options, words) => userWrote([...words, ...options.extra_args], [TRANSFER_FLAG], RULES),
  launch: vllmLaunch,
  announce: vllmAnnounce,
  versions: VLLM_VERSIONS,
  needs: vllmNeeds,
  peering: vllmPeering,
  handOver: vllmHandOver,
  disaggregation: vllmDisaggregation,
  variants: vllmVariants,
  probe: vllmProbe,
  sleeps: vllmSleeps,
  chat: VLLM_CHAT,
  tokenLogprobs: LOGPROBS,
  // vllm/entrypoints/openai/chat_completion/protocol.py, 0.32.0.
  continuesChat: { continue_final_message: "true", add_generation_prompt: "false" },
  // docs.vllm.ai, deployment/docker: images are tagged with the version.
  image: (version) => `vllm/vllm-openai:v${version}`,
  newestVersion: VLLM_VERSIONS.newest,
  decodeEvents: decodeVllmEvents,
  decodeEventsInSteps: decodeVllmEventsInSteps,
};
