import type { WorkerInfo } from "../core/worker.ts";
import { findEngine } from "../engines/registry.ts";
import type { ReadRequest } from "./read.ts";

type Asked = Pick<ReadRequest, "kind" | "json" | "stream" | "unmatched">;

/** Why an answer of this worker will have no log probabilities of its tokens; undefined: it can have them. */
export function whyBlind(worker: WorkerInfo, leg: Asked): string | undefined {
  const { kind, json, stream, unmatched } = leg;
  if (kind !== "chat" && kind !== "completion") return "this API tells no log probabilities";
  if (unmatched !== undefined || json === undefined) return "its body is too large to be changed";
  // Engines then compute those of the prompt too, and leave their cache out.
  if (json["echo"] === true) return "it wants its prompt back (echo)";
  const engine = findEngine(worker.kind).tokenLogprobs;
  if (engine === undefined || worker.traits.lacksLogprobs === true) return `${worker.id} tells no log probabilities`;
  if (stream && !engine.streams) return `streams of ${worker.id} tell no log probabilities`;
  if (stream && hasTools(json) && !engine.toolStreams) return `${worker.id} tells none in streams with tools`;
  return undefined;
}

/** Did the client itself ask for them? */
export function asksLogprobs({ json }: Pick<Asked, "json">): boolean {
  const asked = json?.["logprobs"];
  return asked === true || typeof asked === "number";
}

/**
 * Is a whole answer asked for as a stream, so that it can be cut as soon as it is known to be no good? Undefined: as the engine's traits
 * say. Not where the answer may lose something by it: what a stream tells of tools and formats is made by other code of the engine.
 */
export function foldsStep(worker: WorkerInfo, { json = {}, stream }: Asked): boolean | undefined {
  if (stream || findEngine(worker.kind).tokenLogprobs === undefined) return undefined;
  if (!streamsLogprobs(worker, json)) return false;
  if (worker.traits.foldNonStreaming === true) return undefined;
  return PLAIN_BUT.some((key) => (json[key] ?? null) !== null) ? undefined : true;
}

/** Does a stream of this worker have what was asked of log probabilities? llama-server refuses some, MLX leaves them out. */
export function streamsLogprobs({ kind }: WorkerInfo, json: NonNullable<Asked["json"]>): boolean {
  const engine = findEngine(kind).tokenLogprobs;
  return engine === undefined || (engine.streams && (!hasTools(json) || engine.toolStreams));
}

const PLAIN_BUT = [
  ...["tools", "functions", "response_format", "structured_outputs", "guided_json", "guided_regex", "guided_choice"],
  ...["prompt_logprobs", "return_token_ids", "return_hidden_states", "use_beam_search", "kv_transfer_params"],
] as const;

/** Tools that the model may call. */
export function hasTools(json: NonNullable<Asked["json"]>): boolean {
  const { tools, functions } = json;
  return (Array.isArray(tools) && tools.length > 0) || (Array.isArray(functions) && functions.length > 0);
}
