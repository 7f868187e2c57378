import { decodeIds, encodeText } from "../tokens.ts";
import type { AnswerShapes } from "./answer-shapes.ts";
import type { Exchange } from "./exchange.ts";
import { FAULT_KINDS, readFault } from "./faults.ts";
import { chatPrompt, type Refusal, readRequest } from "./read-request.ts";
import { runGeneration } from "./run-generation.ts";
import type { SimEngine } from "./sim-engine.ts";

/** A route answers an exchange; what it throws becomes a 500. */
export type Route = (exchange: Exchange, engine: SimEngine) => void | Promise<void>;

/** Routes by `METHOD /path`. */
export type RouteTable = Readonly<Record<string, Route>>;

/** How an engine words what the shared routes have to say. */
export interface Dialect {
  readonly shapes: { readonly chat: AnswerShapes; readonly completion: AnswerShapes };
  /** SGLang answers for any model name. */
  readonly anyModel: boolean;
  /** The data-parallel rank that a request names. */
  rank(exchange: Exchange, body: unknown): number | undefined;
  /** Of a tool call. */
  callId(engine: SimEngine): string;
  newId(chat: boolean, exchange: Exchange, engine: SimEngine): string;
  refusal(refusal: Refusal): { readonly status: number; readonly body: object };
  failure(status: number, message: string): { readonly status: number; readonly body: object };
  /** What a request gets while the engine drains, or is dead. */
  draining(): { readonly status: number; readonly body: object };
}

/** `/v1/chat/completions` and `/v1/completions`. */
export function generationRoute(kind: "chat" | "completion", dialect: Dialect): Route {
  return async (exchange, engine) => {
    const refuse = (answer: { status: number; body: object }): void => exchange.sendJson(answer.status, answer.body);
    if (engine.hangs(true)) return;
    if (engine.phase !== "ready") return refuse(dialect.draining());
    if (engine.sleep.isAsleep) await engine.sleep.awake();
    if (engine.sleep.isHollow) return refuse(dialect.failure(500, "the weights were not loaded again"));
    if (engine.takeError()) return refuse(dialect.failure(500, "Internal server error"));
    const body = await bodyOf(exchange);
    if (body instanceof Error) return refuse(dialect.refusal({ why: "malformed", message: body.message, param: null }));
    const read = readRequest(kind, body, engine.options, {
      id: dialect.newId(kind === "chat", exchange, engine),
      created: Math.floor(engine.deps.clock.wall() / 1000),
      anyModel: dialect.anyModel,
      callId: dialect.callId(engine),
    });
    if ("refusal" in read) return refuse(dialect.refusal(read.refusal));
    const cutAfter = read.generation.stream ? engine.takeCut() : undefined;
    runGeneration(read.generation, dialect.shapes[kind], exchange, engine.rankFor(dialect.rank(exchange, body)).loop, {
      now: () => engine.deps.clock.now(),
      wall: () => engine.deps.clock.wall(),
      ...(cutAfter === undefined ? {} : { cutAfter }),
      onStart: (active) => engine.active.add(active),
      onEnd: (active) => engine.ended(active),
    });
  };
}

async function bodyOf(exchange: Exchange): Promise<unknown> {
  try {
    return await exchange.json();
  } catch (e) {
    return e instanceof Error ? e : new Error(String(e));
  }
}

/** `/tokenize`: a prompt or a chat. `names` gives the answer's keys. */
export function tokenizeRoute(dialect: Dialect, extra: Readonly<Record<string, null>>): Route {
  return async (exchange, engine) => {
    const body = await bodyOf(exchange);
    const fields = typeof body === "object" && body !== null ? (body as Record<string, unknown>) : {};
    const prompt = fields["prompt"] ?? fields["text"];
    const ids = typeof prompt === "string" ? encodeText(prompt) : chatPrompt(engine.options.kind, fields);
    if (typeof ids === "string") {
      const answer = dialect.refusal({ why: "malformed", message: ids, param: null });
      return exchange.sendJson(answer.status, answer.body);
    }
    exchange.sendJson(200, { count: ids.length, max_model_len: engine.options.maxModelTokens, tokens: ids, ...extra });
  };
}

/** `/detokenize` */
export function detokenizeRoute(key: "prompt" | "text", dialect: Dialect): Route {
  return async (exchange) => {
    const body = await bodyOf(exchange);
    const tokens = typeof body === "object" && body !== null && "tokens" in body ? body.tokens : undefined;
    if (Array.isArray(tokens)) return exchange.sendJson(200, { [key]: decodeIds(tokens as number[]) });
    const answer = dialect.refusal({ why: "malformed", message: "tokens should be a valid list", param: "tokens" });
    exchange.sendJson(answer.status, answer.body);
  };
}

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
    const fault = readFault(await bodyOf(exchange));
    if (typeof fault === "string") return exchange.sendJson(400, { error: { message: fault } });
    engine.apply(fault);
    exchange.sendJson(200, { applied: fault });
  },
};
