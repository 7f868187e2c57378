import { allPathsBut } from "../../core/api-paths.ts";
import { userValue } from "../args.ts";
import { type Announcement, type Engine, tokenizerSource } from "../engine.ts";
import { noneOnlyCell } from "../none-only.ts";
import type { TokenLogprobs } from "../token-logprobs.ts";
import { launchedModel, launchMlx, type MlxInput, userArgsOf } from "./mlx-launch.ts";
import { type MlxOptions, mlxSchema } from "./mlx-options.ts";
import { mlxProbe } from "./mlx-probe.ts";
import { mlxVariants } from "./mlx-variants.ts";
import { mlxNeeds } from "./requirements.ts";
import { MLX_VERSIONS } from "./versions.ts";

/**
 * `--prompt-cache-size` where it is not written. The cache drops what was put in first, whatever was used since, and an answered
 * prompt takes the place of its own beginnings: what a history of so many prompts does (`LRUPromptCache`, models/cache.py,
 * mlx-lm 0.32.2). `--prompt-cache-bytes` may make it less, which the reported cached tokens show.
 */
const PROMPT_CACHES = 10;

/** A boolean for both APIs, in the form of chats, and only of answers that are no stream (mlx_lm/server.py, `handle_completion()`, 0.32.2). */
const LOGPROBS: TokenLogprobs = {
  chat: { logprobs: "true" },
  completion: { logprobs: "true" },
  streams: false,
  toolStreams: false,
  unasked: { chat: "absent", completion: "absent" },
};

/** Apple's MLX: `python -m mlx_lm server`. Facts of mlx-lm 0.32.2. */
export const mlx: Engine<MlxOptions> = {
  kind: "mlx",
  section: "mlx",
  sectionAliases: ["mlx_lm"],
  spawns: true,
  // A non-streaming request went on after its client had left. Text parts are joined as they are (process_message_content).
  traits: {
    reportsCachedTokens: true,
    usageOnlyWhenAsked: true,
    foldNonStreaming: true,
    textPartsJoin: "",
    // mlx_lm/server.py, do_POST(), 0.32.2: any other path is "Not Found".
    lacks: allPathsBut(["/v1/chat/completions", "/v1/completions"]),
  },
  schema: mlxSchema,
  defaultPort: (options) => options.port,
  cell: (offload, role) => noneOnlyCell("mlx_lm server", offload, role),
  launch: launchMlx,
  announce,
  versions: MLX_VERSIONS,
  needs: mlxNeeds,
  variants: mlxVariants,
  probe: mlxProbe,
  tokenLogprobs: LOGPROBS,
  // mlx_lm/server.py, process_message_content().
  chat: { contents: "text", lastAssistant: "kept" },
};

function announce(input: MlxInput): Announcement {
  const upstreamModel = launchedModel(input);
  const caches = Number(userValue(userArgsOf(input), ["--prompt-cache-size"]));
  return {
    kv: { type: "history", entries: Number.isInteger(caches) && caches >= 1 ? caches : PROMPT_CACHES },
    tokenizer: tokenizerSource(input.model),
    ...(upstreamModel === input.model.name ? {} : { upstreamModel }),
    ...(input.model.maxModelLen === undefined ? {} : { maxModelTokens: input.model.maxModelLen }),
  };
}
