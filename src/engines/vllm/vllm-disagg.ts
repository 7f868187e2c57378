import type { HandOver } from "../../core/hand-over.ts";
import type { LaunchPlan } from "../../core/launch-plan.ts";
import type { BodyEdits, Disaggregation, PrefillAnswer } from "../disaggregation.ts";
import type { LaunchInput } from "../engine.ts";
import { vllmPeering } from "./requirements.ts";
import type { VllmOptions } from "./vllm-options.ts";
import { TRANSFER_FLAG } from "./vllm-user.ts";

const PARAMS = "kv_transfer_params";

type Json = Readonly<Record<string, unknown>>;

/**
 * vLLM over NIXL. Pull: the prefill leg asks for one token with `do_remote_decode` and answers opaque `kv_transfer_params`, which
 * go to the decode leg as they are. They are good for one decode: stale ones are answered with somebody else's KV (seen on 0.32.0).
 * Push: both legs at once, joined by a `transfer_id` (examples/…/disagg_proxy_pushconnector_demo.py, 0.32).
 */
export const vllmDisaggregation: Disaggregation = {
  ownMembers: [PARAMS],
  adopted: () => ({ protocol: "pull" }),
  isTogether: ({ protocol }) => protocol === "push",
  whyWhole,
  prefillEdits(legs) {
    const push = legs.prefill.protocol === "push";
    const params = {
      do_remote_decode: true,
      do_remote_prefill: false,
      remote_engine_id: null,
      remote_block_ids: null,
      remote_host: null,
      remote_port: null,
      ...(push ? { transfer_id: legs.tryId } : {}),
    };
    return { ...oneToken(legs.body), [PARAMS]: JSON.stringify(params) };
  },
  decodeEdits(legs) {
    const { host, port, engineId, peering } = legs.prefill;
    const rank = legs.prefillRank;
    const params = {
      do_remote_prefill: true,
      do_remote_decode: false,
      // vLLM names the engine of a data-parallel rank by the rank.
      remote_engine_id: rank === undefined ? engineId : `${engineId}_dp${rank}`,
      remote_request_id: legs.tryId,
      remote_host: host,
      remote_port: port === undefined ? undefined : port + (rank ?? 0),
      tp_size: peering?.tp ?? 1,
      pp_size: 1,
      transfer_id: legs.tryId,
    };
    return { [PARAMS]: JSON.stringify(params) };
  },
  readPrefill,
  releaseEdits: (handedOver) => ({
    ...handedOver,
    max_tokens: "1",
    max_completion_tokens: "1",
    stream: "false",
    stream_options: undefined,
  }),
};

/** The prefill leg makes one token: nothing that promises more, and no stream. */
function oneToken(body: Json): BodyEdits {
  return {
    stream: "false",
    stream_options: undefined,
    max_tokens: "1",
    ...("max_completion_tokens" in body ? { max_completion_tokens: "1" } : {}),
    ...("max_output_tokens" in body ? { max_output_tokens: "1" } : {}),
    min_tokens: undefined,
    min_completion_tokens: undefined,
  };
}

const SPLIT_PATHS: ReadonlySet<string> = new Set(["/v1/chat/completions", "/v1/completions"]);

function whyWhole(path: string, body: Json): string | undefined {
  if (!SPLIT_PATHS.has(path)) return `${path} is not split`;
  if (typeof body["n"] === "number" && body["n"] > 1) return "one hand-over serves one choice, and n is above 1";
  if (typeof body["best_of"] === "number" && body["best_of"] > 1) return "one hand-over serves one choice (best_of)";
  if (body["use_beam_search"] === true) return "one hand-over serves one choice (use_beam_search)";
  const { prompt } = body;
  if (Array.isArray(prompt) && prompt.some((each) => typeof each !== "number")) return "it has several prompts";
  // The decode engine computes no prompt, so it has no log probabilities of it.
  if (isAsked(body["prompt_logprobs"]) || (body["echo"] === true && isAsked(body["logprobs"]))) {
    return "log probabilities of the prompt are asked for";
  }
  return undefined;
}

const isAsked = (value: unknown): boolean => value !== undefined && value !== null && value !== false;

function readPrefill(answer: unknown): PrefillAnswer {
  const body = isObject(answer) ? answer : {};
  const usage = isObject(body["usage"]) ? body["usage"] : {};
  const details = isObject(usage["prompt_tokens_details"]) ? usage["prompt_tokens_details"] : {};
  const cached = details["cached_tokens"];
  const cachedTokens = typeof cached === "number" ? { cachedTokens: cached } : {};
  const params = body[PARAMS];
  // Without these a decode engine hangs, or dies when the client leaves (KeyError 'remote_engine_id', seen on 0.32.0).
  const isWhole =
    isObject(params) &&
    params["do_remote_prefill"] === true &&
    ["remote_engine_id", "remote_request_id", "remote_host", "remote_port", "remote_block_ids"].every(
      (name) => params[name] !== undefined && params[name] !== null,
    );
  if (!isWhole) return { type: "nothing-held", ...cachedTokens };
  return { type: "handed-over", edits: { [PARAMS]: JSON.stringify(params) }, ...cachedTokens };
}

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** What routers must know to hand over by this engine's connector. Undefined: it has none that does. */
export function vllmHandOver(input: LaunchInput<VllmOptions>, plan: LaunchPlan): HandOver | undefined {
  const peering = vllmPeering(input, plan);
  if (peering === undefined) return undefined;
  const config = transferConfig(plan);
  if (!JSON.stringify(config ?? "").includes("NixlPushConnector")) return { protocol: "pull", peering };
  const { engine_id: engineId } = config as { engine_id?: unknown };
  const port = plan.ports.find(({ name }) => name === "nixl-side-channel")?.port;
  const written = plan.env["VLLM_NIXL_SIDE_CHANNEL_PORT"];
  const channel = port ?? (typeof written === "string" ? Number(written) : undefined);
  return {
    protocol: "push",
    peering,
    host: peering.address,
    ...(channel === undefined || !Number.isInteger(channel) ? {} : { port: channel }),
    ...(typeof engineId === "string" ? { engineId } : {}),
  };
}

function transferConfig({ argv }: LaunchPlan): unknown {
  const at = argv.findLastIndex((word) => word === TRANSFER_FLAG || word.startsWith(`${TRANSFER_FLAG}=`));
  const word = argv[at];
  const text = word === TRANSFER_FLAG ? argv[at + 1] : word?.slice(TRANSFER_FLAG.length + 1);
  try {
    return JSON.parse(text ?? "null");
  } catch {
    return undefined;
  }
}
