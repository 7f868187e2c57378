import type { EngineKind } from "../core/engine-kind.ts";
import { nodeId, workerId } from "../core/ids.ts";
import type { WorkerInfo } from "../core/worker.ts";
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
    watched: true,
  };
}

/** What an engine said of itself. */
export interface Adopted {
  readonly worker: WorkerInfo;
  /** It answered every question. Where not, what was known before stands in, and it should be asked again. */
  readonly whole: boolean;
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
  return (await adoptAgain(spec, engines, ask))?.worker;
}

/**
 * The same for one that was asked before: a question that it does not answer in time says nothing, so what it said then holds.
 * @returns undefined while it answers nothing, or cannot say which model it serves
 */
export async function adoptAgain(
  spec: EngineSpec,
  engines: readonly Engine[],
  ask: AskEngine,
  last?: WorkerInfo,
): Promise<Adopted | undefined> {
  const questions = new Questions(spec.url, ask);
  const engine = await identifyEngine(spec, engines, questions, last);
  const { probe } = engine;
  /** What is known of a path that does not answer now. Of another kind of engine it is another one. */
  const known = async (path: string | undefined): Promise<WorkerInfo | undefined> =>
    path === undefined || last?.kind !== engine.kind || (await questions.answers(path)) ? undefined : last;
  const list = await questions.text(probe.models?.path);
  const served = list === undefined ? [] : (probe.models?.parse(list) ?? []);
  const named = await known(probe.models?.path);
  const names =
    named !== undefined
      ? namesOf(named)
      : { ...servedNames(served, spec.model === undefined ? [] : [spec.model]), ...upstreamName(spec, served) };
  if (!questions.heard || names.models.length === 0) return undefined;
  const blocks = await questions.text(probe.blockTokens?.path);
  const blockTokens =
    blocks === undefined ? (await known(probe.blockTokens?.path))?.blockTokens : probe.blockTokens?.parse(blocks);
  const base = unknownWorker(spec);
  const sources =
    spec.kv === undefined ? await sourcesOf(spec, engine, questions, await known(probe.kvSources?.path)) : {};
  const told = Object.keys(spec.tokenizer).length > 0 ? undefined : await questions.text(probe.tokenizer?.path);
  const tokenizer = told === undefined ? (await known(probe.tokenizer?.path))?.tokenizer : probe.tokenizer?.parse(told);
  const worker: WorkerInfo = {
    ...base,
    tokenizer: Object.keys(spec.tokenizer).length > 0 ? spec.tokenizer : (tokenizer ?? spec.tokenizer),
    kind: engine.kind,
    traits: engine.traits,
    ...names,
    ...sources,
    reason: "",
    ...(blockTokens === undefined ? {} : { blockTokens }),
    ...(named === undefined ? contextLimit(served) : pick(named, "maxModelTokens")),
    ...handOver(spec, engine),
  };
  return { worker, whole: questions.silent === 0 };
}

/** What is asked of one engine, each path once. */
class Questions {
  /** It answered something. */
  heard = false;
  /** Questions without an answer. */
  silent = 0;
  readonly #url: string;
  readonly #ask: AskEngine;
  readonly #replies = new Map<string, Promise<TextReply>>();

  constructor(url: string, ask: AskEngine) {
    this.#url = url;
    this.#ask = ask;
  }

  reply(path: string): Promise<TextReply> {
    let reply = this.#replies.get(path);
    if (reply === undefined) this.#replies.set(path, (reply = this.#put(path)));
    return reply;
  }

  /** Undefined: it has no such path, or did not answer. */
  async text(path: string | undefined): Promise<string | undefined> {
    if (path === undefined) return undefined;
    const { status, body } = await this.reply(path);
    return status === 200 ? body : undefined;
  }

  /** Did it answer, whatever it said? */
  async answers(path: string | undefined): Promise<boolean> {
    return path !== undefined && (await this.reply(path)).status !== 0;
  }

  async #put(path: string): Promise<TextReply> {
    const reply = await this.#ask(this.#url, path);
    if (reply.status === 0) this.silent++;
    else this.heard = true;
    return reply;
  }
}

/**
 * The engine that understands what is answered there: by its version, else by its template; else any OpenAI server, unless one of these
 * questions was not answered and it is known from before.
 */
async function identifyEngine(
  spec: EngineSpec,
  engines: readonly Engine[],
  questions: Questions,
  last: WorkerInfo | undefined,
): Promise<Engine> {
  const named = (kind: EngineKind): Engine => {
    const found = engines.find((engine) => engine.kind === kind);
    if (found === undefined) throw new RangeError(`no engine of kind ${kind}`);
    return found;
  };
  if (spec.kind !== undefined) return named(spec.kind);
  for (const engine of engines) {
    for (const part of [engine.probe.version, engine.probe.template]) {
      if (part === undefined) continue;
      const body = await questions.text(part.path);
      if (body !== undefined && part.parse(body) !== undefined) return engine;
    }
  }
  return named(questions.silent > 0 && last !== undefined ? last.kind : "openai_compat");
}

function namesOf(before: WorkerInfo): Pick<WorkerInfo, "models" | "adapters" | "upstreamModel"> {
  return { models: before.models, ...pick(before, "adapters"), ...pick(before, "upstreamModel") };
}

/** A member, where it is there. */
function pick<K extends keyof WorkerInfo>(from: WorkerInfo | undefined, key: K): Partial<Pick<WorkerInfo, K>> {
  const value = from?.[key];
  return value === undefined ? {} : ({ [key]: value } as unknown as Pick<WorkerInfo, K>);
}

/** One source a data-parallel rank. @param before what is known of an engine that does not say now */
async function sourcesOf(
  spec: EngineSpec,
  { probe }: Engine,
  questions: Questions,
  before: WorkerInfo | undefined,
): Promise<Partial<Pick<WorkerInfo, "kv" | "ranks">>> {
  if (before !== undefined) return { kv: before.kv, ...pick(before, "ranks") };
  const body = await questions.text(probe.kvSources?.path);
  const [kv, ...ranks] = body === undefined ? [] : toldSources(probe, body, new URL(spec.url).hostname);
  return { ...(kv === undefined ? {} : { kv }), ...(ranks.length === 0 ? {} : { ranks }) };
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
