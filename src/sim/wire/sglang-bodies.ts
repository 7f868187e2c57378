import type { EngineModel } from "../model/engine-model.ts";
import {
  type AnswerShapes,
  answerTokens,
  type Choice,
  chunked,
  type Generation,
  promptTokens,
  type Told,
} from "./answer-shapes.ts";
import { type HostPort, parseEndpoint } from "./endpoint.ts";
import { chatLogprobs, completionLogprobs } from "./logprobs.ts";
import type { SimOptions } from "./sim-options.ts";

/** Bodies as SGLang 0.5.23 gives them, key for key (`../testdata/sglang`). */

/** SGLang's error body. */
export function sglangError(status: number, type: string, message: string): object {
  return { object: "error", message, type, param: null, code: status };
}

/** `max_tokens: 0`: the prompt is computed, and nothing is told. */
const isPromptOnly = ({ body }: Generation): boolean => (body["max_completion_tokens"] ?? body["max_tokens"]) === 0;

function usageOf(g: Generation, { use }: Told) {
  const answered = isPromptOnly(g) ? 0 : answerTokens(g);
  return {
    prompt_tokens: promptTokens(g),
    total_tokens: promptTokens(g) + answered,
    completion_tokens: answered,
    prompt_tokens_details: g.reportsCachedTokens ? { cached_tokens: use.cachedTokens } : null,
    reasoning_tokens: 0,
    completion_tokens_details: null,
  };
}

/** `continuous_usage_stats`: the figures so far, in each chunk but the first. */
function usageSoFar(g: Generation, told: Told): object {
  if (!g.usageInChunks) return {};
  const tokens = told.generated.reduce((sum, n) => sum + n, 0);
  return { usage: { ...usageOf(g, told), total_tokens: promptTokens(g) + tokens, completion_tokens: tokens } };
}

function head(g: Generation, object: string): object {
  return { id: g.id, object, created: g.created, model: g.model };
}

function metadata(g: Generation): object {
  const [first] = g.choices;
  return {
    weight_version: "default",
    weight_versions: [{ version: "default", start: 0, end: first?.text.length ?? 0 }],
  };
}

function chunk(
  g: Generation,
  choice: Choice,
  delta: object,
  ends: boolean,
  more: { readonly logprobs?: object | null; readonly told?: Told } = {},
): object {
  const one = {
    index: choice.index,
    delta: { reasoning_content: null, ...delta },
    logprobs: more.logprobs ?? null,
    finish_reason: ends ? finishOf(choice) : null,
    matched_stop: ends && choice.finish === "stop" ? matchedStop(choice) : null,
  };
  const usage = more.told === undefined ? {} : usageSoFar(g, more.told);
  return { ...head(g, "chat.completion.chunk"), choices: [one], ...usage };
}

/** The stop text, else the id of the token that ended it. */
const matchedStop = ({ stopReason }: Choice): string | number => stopReason ?? BYTE_EOS_ID;

/** What stands for the end of a turn in answers: SmolLM2's id in the recorded ones. */
const BYTE_EOS_ID = 2;

const finishOf = ({ call, finish }: Choice): string =>
  call !== undefined && finish === "stop" ? "tool_calls" : finish;

function callOf({ call }: Choice): object {
  return {
    id: call?.id,
    index: 0,
    type: "function",
    function: { name: call?.name, arguments: call?.arguments },
  };
}

/** `/v1/chat/completions` */
export const sglangChat: AnswerShapes = chunked({
  whole(g, told) {
    const choices = g.choices.map((choice) => ({
      index: choice.index,
      message: {
        role: "assistant",
        content: choice.call === undefined ? (isPromptOnly(g) ? "" : choice.text) : null,
        reasoning_content: null,
        ...(choice.call === undefined ? {} : { tool_calls: [callOf(choice)] }),
      },
      logprobs: chatLogprobs(g, choice.text),
      finish_reason: finishOf(choice),
      matched_stop: choice.finish === "stop" ? matchedStop(choice) : null,
      ...(g.returnTokenIds
        ? { prompt_token_ids: choice.prompt, response_token_ids: [...Buffer.from(choice.text)] }
        : {}),
    }));
    return { ...head(g, "chat.completion"), choices, usage: usageOf(g, told), metadata: metadata(g) };
  },
  open: (g, choice) => chunk(g, choice, { role: "assistant", content: "" }, false),
  delta: (g, choice, at, _last, told) => {
    const text = choice.text[at]!;
    const delta = choice.call === undefined ? { content: text } : { tool_calls: [callDelta(choice, at, text)] };
    return chunk(g, choice, delta, false, { logprobs: chatLogprobs(g, choice.text, at, at + 1), told });
  },
  close: (g, choice) => chunk(g, choice, {}, true),
  usage: (g, told) => ({ ...head(g, "chat.completion.chunk"), choices: [], usage: usageOf(g, told) }),
});

function callDelta({ call }: Choice, at: number, text: string): object {
  const id = at === 0 ? call?.id : null;
  const name = at === 0 ? call?.name : null;
  return { id, index: 0, type: "function", function: { name, arguments: text } };
}

/** `/v1/completions` */
export const sglangCompletion: AnswerShapes = chunked({
  whole(g, told) {
    const before = g.echo ?? "";
    const choices = g.choices.map((choice) => ({
      index: choice.index,
      text: before + choice.text,
      logprobs: listsOf(g, before + choice.text, 0, undefined, before !== ""),
      finish_reason: choice.finish,
      matched_stop: choice.finish === "stop" ? matchedStop(choice) : null,
      ...(g.returnTokenIds ? { prompt_token_ids: choice.prompt, token_ids: [...Buffer.from(choice.text)] } : {}),
    }));
    return { ...head(g, "text_completion"), choices, usage: usageOf(g, told), metadata: metadata(g) };
  },
  delta(g, choice, at, last) {
    const before = at === 0 ? (g.echo ?? "") : "";
    return completionChunk(g, choice, before + choice.text[at], last && endsWithText(choice), at);
  },
  close: (g, choice) => (endsWithText(choice) ? undefined : completionChunk(g, choice, "", true)),
  usage(g, told) {
    const { completion_tokens_details: _, ...usage } = usageOf(g, told);
    return { ...head(g, "text_completion"), choices: [], usage };
  },
});

/** The reason is on the last token, but for an end of its own, which is a token without a text. */
const endsWithText = ({ finish, stopReason }: Choice): boolean => finish === "length" || stopReason !== null;

/** Where nothing was asked for besides the tokens there are no maps (vLLM has one with the token itself). */
function listsOf(
  g: Generation,
  text: string,
  from: number,
  to: number | undefined,
  firstHasNone: boolean,
): object | null {
  const lists = completionLogprobs(g, text, from, to, firstHasNone);
  if (lists === null) return null;
  const offsets = Array.from({ length: (to ?? text.length) - from }, () => -1);
  return { ...lists, text_offset: offsets, ...((g.logprobs?.top ?? 0) > 0 ? {} : { top_logprobs: [] }) };
}

function completionChunk(g: Generation, choice: Choice, text: string, ends: boolean, at?: number): object {
  const one = {
    index: choice.index,
    text,
    logprobs: at === undefined ? null : listsOf(g, choice.text, at, at + 1, false),
    finish_reason: ends ? choice.finish : null,
    matched_stop: ends && choice.finish === "stop" ? matchedStop(choice) : null,
  };
  return { ...head(g, "text_completion"), choices: [one], usage: null };
}

/** `/v1/models` */
export function sglangModels(options: SimOptions, created: number): object {
  const [id] = options.models;
  const entry = { id, object: "model", created, owned_by: "sglang", root: id, parent: null };
  return { object: "list", data: [{ ...entry, max_model_len: options.maxModelTokens }] };
}

/** `/model_info` and `/get_model_info`, the keys that say something about the simulator. */
export function sglangModelInfo(options: SimOptions): object {
  return {
    model_path: options.modelPath,
    served_model_name: options.models[0],
    tokenizer_path: options.modelPath,
    is_generation: true,
    preferred_sampling_params: null,
    weight_version: "default",
    disaggregation_mode: "null",
  };
}

/** `/server_info` and `/get_server_info`: of its 500 keys those that a control plane reads. */
export function sglangServerInfo(options: SimOptions, http: HostPort): object {
  const { limits, events } = options;
  return {
    model_path: options.modelPath,
    tokenizer_path: options.modelPath,
    served_model_name: options.models[0],
    context_length: options.maxModelTokens,
    page_size: limits.blockTokens,
    max_total_num_tokens: limits.blocks * limits.blockTokens,
    max_running_requests: limits.maxSequences,
    chunked_prefill_size: limits.maxBatchedTokens,
    disable_radix_cache: !limits.prefixCaching,
    enable_metrics: options.metrics,
    enable_cache_report: options.reportsCachedTokens,
    tp_size: 1,
    dp_size: 1,
    host: http.host,
    port: http.port,
    disaggregation_mode: "null",
    ...(events === undefined ? {} : { kv_events: kvEvents(events, limits.blockTokens, options.ranks ?? 1) }),
    version: options.version,
    simulated: true,
  };
}

function kvEvents(events: NonNullable<SimOptions["events"]>, blockTokens: number, ranks: number): object {
  const live = parseEndpoint(events.endpoint);
  const replay = events.replay === undefined ? undefined : parseEndpoint(events.replay);
  return {
    publisher: "zmq",
    endpoint_host: live?.host ?? "*",
    endpoint_port_base: live?.port ?? null,
    topic: events.topic,
    block_size: blockTokens,
    dp_size: ranks,
    ...(replay === undefined ? {} : { replay_endpoint_port_base: replay.port }),
  };
}

/** `/v1/loads`. The real one is a snapshot that says 0 running while it generates; this one is up to date. */
export function sglangLoads(options: SimOptions, model: EngineModel, epochMs: number): object {
  const total = options.limits.blocks * options.limits.blockTokens;
  const used = model.usedBlocks * options.limits.blockTokens;
  const { queriedTokens, hitTokens } = model.counters;
  return {
    timestamp: new Date(epochMs).toISOString(),
    version: options.version,
    accelerator: null,
    num_accelerators: 1,
    loads: [
      {
        timestamp: epochMs / 1000,
        dp_rank: 0,
        num_running_reqs: model.running,
        num_waiting_reqs: model.waiting,
        num_used_tokens: used,
        max_total_num_tokens: total,
        max_running_requests: options.limits.maxSequences,
        token_usage: used / total,
        gen_throughput: 0,
        cache_hit_rate: queriedTokens === 0 ? 0 : hitTokens / queriedTokens,
      },
    ],
  };
}

/** `/api/tags`, as Ollama lists its models. */
export function ollamaTags(options: SimOptions, epochMs: number): object {
  const [name] = options.models;
  const modified_at = new Date(epochMs).toISOString();
  const details = { format: "sglang", family: name, parameter_size: "unknown" };
  return { models: [{ name, model: name, modified_at, size: 0, digest: `sha256:sglang${"0".repeat(58)}`, details }] };
}
