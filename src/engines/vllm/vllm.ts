import { userWrote } from "../args.ts";
import type { Engine } from "../engine.ts";
import { RULES } from "./vllm-context.ts";
import { decodeVllmEvents } from "./vllm-events.ts";
import { vllmAnnounce, vllmLaunch } from "./vllm-launch.ts";
import { vllmCell } from "./vllm-offload.ts";
import { type VllmOptions, vllmOptions } from "./vllm-options.ts";
import { vllmProbe } from "./vllm-probe.ts";
import { TRANSFER_FLAG } from "./vllm-user.ts";
import { vllmVariants } from "./vllm-variants.ts";

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
  },
  schema: vllmOptions,
  defaultPort: () => 8000,
  cell: vllmCell,
  writesTransfer: (options, words) => userWrote([...words, ...options.extra_args], [TRANSFER_FLAG], RULES),
  launch: vllmLaunch,
  announce: vllmAnnounce,
  variants: vllmVariants,
  probe: vllmProbe,
  // vllm/entrypoints/chat_utils.py, _parse_chat_message_content() with content_format "openai".
  chat: { contents: "wrapped", lastAssistant: "kept" },
  decodeEvents: decodeVllmEvents,
};
