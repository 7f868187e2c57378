import type { AnswerShapes, Generation } from "./answer-shapes.ts";
import type { Exchange } from "./exchange.ts";
import { FAULT_KINDS, readFault } from "./faults.ts";
import { type Refusal, readRequest } from "./read-request.ts";
import { runGeneration } from "./run-generation.ts";
import type { Phase, SimEngine } from "./sim-engine.ts";

/** A route answers an exchange; what it throws becomes a 500. */
export type Route = (exchange: Exchange, engine: SimEngine) => void | Promise<void>;

/** Routes by `METHOD /path`. */
export type RouteTable = Readonly<Record<string, Route>>;

/** The ways in which an answer can be asked for. */
export type GenerationKind = "chat" | "completion" | "messages" | "responses" | "generate";

/** An answer in the place of a generation. */
export interface Answer {
  readonly status: number;
  readonly body: object;
  /** Instead of the body: a server's own words, as plain text. */
  readonly text?: string;
}

/** How an engine words what the shared routes have to say. */
export interface Dialect {
  readonly shapes: Readonly<Partial<Record<GenerationKind, AnswerShapes>>>;
  /** SGLang answers for any model name. */
  readonly anyModel: boolean;
  /** The data-parallel rank that a request names. */
  rank(exchange: Exchange, body: unknown): number | undefined;
  /** Of a tool call. */
  callId(engine: SimEngine): string;
  newId(kind: GenerationKind, exchange: Exchange, engine: SimEngine): string;
  /** What is wrong with a body before its prompt is looked at; else the body as a chat's or completion's. */
  check(
    kind: GenerationKind,
    value: unknown,
    path: string,
  ): Answer | { readonly ok: Readonly<Record<string, unknown>> };
  /** A body that is no JSON. */
  broken(text: string, path: string): Answer;
  /** A body of another media type is refused. */
  wrongMedia?(type: string): Answer | undefined;
  refusal(refusal: Refusal, kind: GenerationKind): Answer;
  /** What is refused only once the answer would begin: in a stream it is its one event. */
  late?(generation: Generation, engine: SimEngine): { readonly whole: Answer; readonly event: object } | undefined;
  failure(status: number, message: string): Answer;
  /** What a request gets while the engine drains, or is dead. */
  draining(phase: Phase): Answer;
}

/** A route that generates: `/v1/chat/completions` and its like. */
export function generationRoute(kind: GenerationKind, dialect: Dialect): Route {
  return async (exchange, engine) => {
    const refuse = ({ status, body, text }: Answer): void =>
      text === undefined
        ? exchange.sendJson(status, body)
        : exchange.sendText(status, text, "text/plain; charset=utf-8");
    if (engine.hangs(true)) return;
    if (engine.phase !== "ready") return refuse(dialect.draining(engine.phase));
    if (engine.sleep.isAsleep) await engine.sleep.awake();
    if (engine.sleep.isHollow) return refuse(dialect.failure(500, "the weights were not loaded again"));
    if (engine.takeError()) return refuse(dialect.failure(500, "Internal server error"));
    const media = dialect.wrongMedia?.(exchange.header("content-type") ?? "");
    if (media !== undefined) return refuse(media);
    const text = await exchange.text();
    const value = parsed(text);
    if (value === undefined) return refuse(dialect.broken(text, exchange.path));
    const checked = dialect.check(kind, value, exchange.path);
    if (!("ok" in checked)) return refuse(checked);
    const read = readRequest(
      kind === "completion" || kind === "generate" ? "completion" : "chat",
      checked.ok,
      engine.options,
      {
        id: dialect.newId(kind, exchange, engine),
        created: Math.floor(engine.deps.clock.wall() / 1000),
        anyModel: dialect.anyModel,
        callId: dialect.callId(engine),
      },
    );
    if ("refusal" in read) return refuse(dialect.refusal(read.refusal, kind));
    const late = dialect.late?.(read.generation, engine);
    if (late !== undefined) {
      if (!read.generation.stream) return refuse(late.whole);
      exchange.openStream();
      for (const data of [JSON.stringify(late.event), "[DONE]"]) exchange.event(data);
      return exchange.end();
    }
    await generate(read.generation, dialect.shapes[kind]!, exchange, engine, dialect.rank(exchange, value));
  };
}

/** Compute and answer, after what the hand-over between prefill and decode needs first. */
async function generate(
  read: Generation,
  shapes: AnswerShapes,
  exchange: Exchange,
  engine: SimEngine,
  rank: number | undefined,
): Promise<void> {
  const over = (await engine.transfer?.begin(read, exchange)) ?? {};
  if (over === "gone") return;
  if ("failed" in over) return exchange.sendJson(over.failed.status, over.failed.body);
  const generation = shortened(read, over.most);
  const cutAfter = generation.stream ? engine.takeCut() : undefined;
  runGeneration(generation, shapes, exchange, engine.rankFor(rank).loop, {
    now: () => engine.deps.clock.now(),
    wall: () => engine.deps.clock.wall(),
    ...(cutAfter === undefined ? {} : { cutAfter }),
    ...(over.handOff === undefined ? {} : { handOff: over.handOff }),
    ...(over.cachedTokens === undefined ? {} : { cachedTokens: over.cachedTokens }),
    ...(over.transferOf === undefined ? {} : { transferOf: over.transferOf }),
    ...(over.transferred === undefined ? {} : { transferred: over.transferred }),
    onStart: (active) => engine.active.add(active),
    onEnd: (active) => engine.ended(active),
    onDone: (told) => over.done?.(told),
  });
}

function shortened(g: Generation, most: number | undefined): Generation {
  if (most === undefined) return g;
  const choices = g.choices.map((choice) => ({
    ...choice,
    text: choice.text.slice(0, most),
    finish: "length" as const,
  }));
  return { ...g, choices };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

async function bodyOf(exchange: Exchange): Promise<unknown> {
  try {
    return await exchange.json();
  } catch (e) {
    return e instanceof Error ? e : new Error(String(e));
  }
}

const notJson = ({ message }: Error): string =>
  `the body is no JSON (${message}). Send for example {"kind":"slow","factor":10}`;

/** The simulator's own routes; no engine has them. */
export const SIM_ROUTES: RouteTable = {
  "GET /sim/info": (exchange, { options }) =>
    exchange.sendJson(200, {
      simulator: true,
      kind: options.kind,
      tokenizer: { bytes: true },
      profile: options.profile,
      faults: FAULT_KINDS,
    }),
  "GET /sim/state": (exchange, { loop, publisher, phase, ranks }) => {
    const { running, waiting, usedBlocks, cachedBlocks, counters, limits } = loop.model;
    const next = publisher?.nextSeq ?? null;
    exchange.sendJson(200, {
      phase,
      running,
      waiting,
      usedBlocks,
      cachedBlocks,
      blocks: limits.blocks,
      nextSeq: next,
      counters,
      ranks: ranks.map((rank) => rank.loop.model.counters),
    });
  },
  "POST /sim/fault": async (exchange, engine) => {
    const body = await bodyOf(exchange);
    const fault = body instanceof Error ? notJson(body) : readFault(body);
    if (typeof fault === "string")
      return exchange.sendJson(400, { error: { message: `Cannot apply the fault: ${fault}` } });
    engine.apply(fault);
    exchange.sendJson(200, { applied: fault });
  },
};
