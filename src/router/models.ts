import { mayUseModel } from "../access/model-globs.ts";
import type { CascadeChain } from "../config/settings.ts";
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

type Chains = Readonly<Record<string, CascadeChain>>;

/**
 * `GET /v1/models` and `/v1/models/ID`: every model that some worker serves and the subject may ask, ready or not; in Anthropic's form for
 * its clients. Names that stand for several models are models to clients.
 * @throws CgnError MODEL_NOT_FOUND, FORBIDDEN
 */
export function answerModels(fleet: Fleet, chains: Chains, { path, res, id, subject, shape }: Exchange): void {
  const name = path.slice("/v1/models/".length);
  const models = name === "" ? allModels(fleet, chains, subject) : [oneModel(fleet, chains, name, subject)];
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

function allModels(fleet: Fleet, chains: Chains, subject: Subject): ModelObject[] {
  const names = new Set([...fleet.models(), ...Object.keys(chains).filter((name) => isServed(fleet, chains[name]))]);
  return [...names].filter((name) => mayUseModel(subject, name)).map((name) => modelOrChain(fleet, name));
}

function oneModel(fleet: Fleet, chains: Chains, name: string, subject: Subject): ModelObject {
  requireModel(subject, name);
  const chain = Object.hasOwn(chains, name) ? chains[name] : undefined;
  if (fleet.group(name) === undefined && !isServed(fleet, chain)) throw modelNotFound(fleet, name);
  return modelOrChain(fleet, name);
}

const isServed = (fleet: Fleet, chain: CascadeChain | undefined): boolean =>
  chain?.models.some((model) => fleet.group(model) !== undefined) === true;

function modelOrChain(fleet: Fleet, name: string): ModelObject {
  return modelObject(fleet.group(name) ?? { model: name, workers: [], ready: [] });
}

function modelObject({ model, workers }: ModelGroup): ModelObject {
  const limits = workers.map((w) => w.maxModelTokens).filter((n) => n !== undefined);
  const limit = limits.length > 0 ? { max_model_len: Math.min(...limits) } : {};
  return { id: model, object: "model", created: CREATED, owned_by: "cgn", ...limit };
}
