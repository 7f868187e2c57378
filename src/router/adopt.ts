import type { EngineKind } from "../core/engine-kind.ts";
import { nodeId, workerId } from "../core/ids.ts";
import type { KvSource, WorkerInfo } from "../core/worker.ts";
import { type Engine, toldSources } from "../engines/engine.ts";
import { type ServedModel, servedNames } from "../engines/probe-text.ts";
import type { TextReply } from "../http/fetch-text.ts";
import type { EngineSpec } from "./engine-spec.ts";

/** Prompts that an engine without events is believed to keep, when nothing is known of its slots. */
const HISTORY_ENTRIES = 16;

/** A shorter common prefix promises nothing of an engine whose rules are not known: most keep whole blocks of 16 tokens. */
const HISTORY_MIN_TOKENS = 16;

/** How an engine is asked. `path` is relative to its base URL. */
export type AskEngine = (url: string, path: string) => Promise<TextReply>;

/** Where a worker is before its engine has said what it is. */
export function unknownWorker(spec: EngineSpec): WorkerInfo {
  const name = new URL(spec.url).host;
  return {
    id: workerId(name),
    node: nodeId(name),
    kind: spec.kind ?? "openai_compat",
    traits: {},
    url: spec.url,
    models: spec.model === undefined ? [] : [spec.model],
    role: spec.role ?? "both",
    kv: spec.kv ?? { type: "history", entries: HISTORY_ENTRIES, minTokens: HISTORY_MIN_TOKENS },
    tokenizer: spec.tokenizer,
    state: "starting",
    reason: "not asked yet",
    epoch: 1,
  };
}

/**
 * Ask a running engine what it is: kind, models, block size, where it publishes KV events. What the spec says wins.
 *
 * @param engines every engine there is, in the order in which they are tried
 * @returns undefined while it cannot say which model it serves
 */
export async function adoptEngine(
  spec: EngineSpec,
  engines: readonly Engine[],
  ask: AskEngine,
): Promise<WorkerInfo | undefined> {
  const engine = await identifyEngine(spec, engines, ask);
  const { probe } = engine;
  const text = async (path: string | undefined): Promise<string | undefined> => {
    if (path === undefined) return undefined;
    const reply = await ask(spec.url, path);
    return reply.status === 200 ? reply.body : undefined;
  };
  const list = probe.models === undefined ? undefined : await text(probe.models.path);
  const served = list === undefined ? [] : (probe.models?.parse(list) ?? []);
  const names = servedNames(served, spec.model === undefined ? [] : [spec.model]);
  if (names.models.length === 0) return undefined;
  const blocks = await text(probe.blockTokens?.path);
  const blockTokens = blocks === undefined ? undefined : probe.blockTokens?.parse(blocks);
  const base = unknownWorker(spec);
  const [kv, ...ranks] = spec.kv === undefined ? await sourcesOf(spec, engine, text) : [];
  const told = Object.keys(spec.tokenizer).length > 0 ? undefined : await text(probe.tokenizer?.path);
  return {
    ...base,
    tokenizer: (told === undefined ? undefined : probe.tokenizer?.parse(told)) ?? spec.tokenizer,
    kind: engine.kind,
    traits: engine.traits,
    ...names,
    kv: spec.kv ?? kv ?? base.kv,
    ...(spec.kv === undefined && ranks.length > 0 ? { ranks } : {}),
    reason: "",
    ...upstreamName(spec, served),
    ...(blockTokens === undefined ? {} : { blockTokens }),
    ...contextLimit(served),
    ...handOver(spec, engine),
  };
}

/** The engine that understands what is answered there: by its version, else by its template; else any OpenAI server. */
async function identifyEngine(spec: EngineSpec, engines: readonly Engine[], ask: AskEngine): Promise<Engine> {
  const named = (kind: EngineKind): Engine => {
    const found = engines.find((engine) => engine.kind === kind);
    if (found === undefined) throw new RangeError(`no engine of kind ${kind}`);
    return found;
  };
  if (spec.kind !== undefined) return named(spec.kind);
  const answers = new Map<string, Promise<TextReply>>();
  const once = (path: string): Promise<TextReply> => {
    let answer = answers.get(path);
    if (answer === undefined) answers.set(path, (answer = ask(spec.url, path)));
    return answer;
  };
  for (const engine of engines) {
    for (const part of [engine.probe.version, engine.probe.template]) {
      if (part === undefined) continue;
      const { status, body } = await once(part.path);
      if (status === 200 && part.parse(body) !== undefined) return engine;
    }
  }
  return named("openai_compat");
}

/** One source a data-parallel rank. */
async function sourcesOf(
  spec: EngineSpec,
  { probe }: Engine,
  text: (path: string | undefined) => Promise<string | undefined>,
): Promise<readonly KvSource[]> {
  const body = await text(probe.kvSources?.path);
  return body === undefined ? [] : toldSources(probe, body, new URL(spec.url).hostname);
}

/** Clients say the spec's name, the engine wants its own where it knows only that. */
function upstreamName(spec: EngineSpec, served: readonly ServedModel[]): { upstreamModel?: string } {
  const own = served[0]?.id;
  if (spec.model === undefined || own === undefined || served.some((m) => m.id === spec.model)) return {};
  return { upstreamModel: own };
}

/** What can be known of the hand-over of an engine that somebody else started. */
function handOver({ role, url, bootstrapPort }: EngineSpec, { disaggregation }: Engine): Pick<WorkerInfo, "handOver"> {
  if (role === undefined || role === "both" || disaggregation === undefined) return {};
  return { handOver: disaggregation.adopted(role, new URL(url).hostname, bootstrapPort) };
}

function contextLimit(served: readonly { readonly maxModelTokens?: number }[]): { maxModelTokens?: number } {
  const limit = served[0]?.maxModelTokens;
  return limit === undefined ? {} : { maxModelTokens: limit };
}
