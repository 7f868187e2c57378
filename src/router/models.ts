import { mayUseModel } from "../access/model-globs.ts";
import { sendJson } from "../http/error-body.ts";
import type { Exchange } from "./accept.ts";
import { type Fleet, type ModelGroup, modelNotFound } from "./fleet.ts";
import { requireModel, type Subject } from "./identify.ts";

interface ModelObject {
  readonly id: string;
  readonly object: "model";
  readonly created: number;
  readonly owned_by: "cgn";
  readonly max_model_len?: number;
}

/** Anthropic's form of the same. */
interface AnthropicModel {
  readonly type: "model";
  readonly id: string;
  readonly display_name: string;
  readonly created_at: string;
}

/** The same for a model at each request: when it came is not known, and clients only sort by it. */
const CREATED = 0;

/**
 * `GET /v1/models` and `/v1/models/ID`: every model that some worker serves and the subject may ask, ready or not; in Anthropic's form for
 * its clients.
 * @throws CgnError MODEL_NOT_FOUND, FORBIDDEN
 */
export function answerModels(fleet: Fleet, { path, res, id, subject, shape }: Exchange): void {
  const name = path.slice("/v1/models/".length);
  const models = name === "" ? allModels(fleet, subject) : [oneModel(fleet, name, subject)];
  const written = shape === "anthropic" ? models.map(anthropicModel) : models;
  const body = name === "" ? list(written) : written[0];
  sendJson(res, 200, body, { "x-request-id": id });
}

/** One page, whatever page was asked for: there are dozens at most. The members are those of both forms of a list. */
function list(data: readonly { readonly id: string }[]): object {
  const ends = { first_id: data.at(0)?.id ?? null, last_id: data.at(-1)?.id ?? null };
  return { object: "list", data, has_more: false, ...ends };
}

function anthropicModel({ id }: ModelObject): AnthropicModel {
  return { type: "model", id, display_name: id, created_at: new Date(CREATED).toISOString() };
}

function allModels(fleet: Fleet, subject: Subject): ModelObject[] {
  const names = fleet.models().filter((name) => mayUseModel(subject, name));
  return names.map((name) => modelObject(fleet.group(name)!));
}

function oneModel(fleet: Fleet, name: string, subject: Subject): ModelObject {
  requireModel(subject, name);
  const group = fleet.group(name);
  if (group === undefined) throw modelNotFound(fleet, name);
  return modelObject(group);
}

function modelObject({ model, workers }: ModelGroup): ModelObject {
  const limits = workers.map((w) => w.maxModelTokens).filter((n) => n !== undefined);
  const limit = limits.length > 0 ? { max_model_len: Math.min(...limits) } : {};
  return { id: model, object: "model", created: CREATED, owned_by: "cgn", ...limit };
}
