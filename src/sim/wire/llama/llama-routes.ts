import { decodeIds, encodeText } from "../../tokens.ts";
import type { AnswerShapes, Choice, Generation } from "../answer-shapes.ts";
import type { Exchange, Manners } from "../exchange.ts";
import type { Route, RouteTable } from "../routes.ts";
import { runGeneration } from "../run-generation.ts";
import type { SimEngine } from "../sim-engine.ts";
import { failure, LlamaRefusal, missingKey, readBody, typeError } from "./llama-errors.ts";
import { checkChat } from "./llama-fields.ts";
import { llamaMetrics } from "./llama-metrics.ts";
import { llamaChat, llamaCompletion, llamaNative } from "./llama-openai.ts";
import { llamaModels, llamaProps } from "./llama-props.ts";
import { llamaMessages, llamaResponses } from "./llama-protocols.ts";
import { chatIds, fromMessages, type LlamaKind, readGeneration } from "./llama-read.ts";
import { type Seat, savedBytes } from "./llama-slots.ts";

/** cpp-httplib's ways, as llama-server uses it (xllamacpp 2026.10). */
export const LLAMA_MANNERS: Manners = {
  json: "application/json; charset=utf-8",
  stream: "text/event-stream",
  headers: { server: "llama.cpp", "access-control-allow-origin": "" },
  streamHeaders: { "x-accel-buffering": "no" },
  closesAfter: (status) => status >= 400,
  keepAlive: "timeout=5, max=100",
  dropsAfterStream: true,
};

const SHAPES: Readonly<Record<LlamaKind, AnswerShapes>> = {
  chat: llamaChat,
  completion: llamaCompletion,
  native: llamaNative,
  messages: llamaMessages,
  responses: llamaResponses,
};

const PREFIXES: Readonly<Record<LlamaKind, string>> = {
  chat: "chatcmpl-",
  completion: "chatcmpl-",
  native: "",
  messages: "chatcmpl-",
  responses: "resp_",
};

/** A route whose refusals become answers. */
const guarded =
  (route: Route): Route =>
  async (exchange, engine) => {
    try {
      await route(exchange, engine);
    } catch (e) {
      if (!(e instanceof LlamaRefusal)) throw e;
      exchange.sendJson(e.failure.status, e.failure.body);
    }
  };

const fieldsOf = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};

async function bodyOf(exchange: Exchange): Promise<unknown> {
  return readBody(await exchange.text());
}

/** llama-server's generation routes: whatever way it is asked, a chat or a prompt in a slot. */
const generation = (kind: LlamaKind): Route =>
  guarded(async (exchange, engine) => {
    if (engine.hangs(true)) return;
    const body = await bodyOf(exchange);
    if (engine.takeError()) throw new LlamaRefusal(500, "Internal server error");
    const { deps, options } = engine;
    const g = readGeneration(body, options, {
      kind,
      id: PREFIXES[kind] + deps.newId(),
      created: Math.floor(deps.clock.wall() / 1000),
    });
    run(kind, g, exchange, engine);
  });

function run(kind: LlamaKind, read: Generation, exchange: Exchange, engine: SimEngine): void {
  const { deps } = engine;
  const board = engine.slots!;
  const limit = read.body["max_tokens"] ?? read.body["n_predict"];
  const facts = { chat: read.chat, limit: typeof limit === "number" ? limit : -1, probs: read.logprobs?.top ?? 0 };
  const seats = new Map<number, Seat>();
  const choices: Choice[] = read.choices.map((choice) => {
    if (choice.prompt.length === 0) return { ...choice, slot: board.count - 1 };
    const seat = board.sit(choice.prompt, read.body, facts);
    seats.set(choice.index, seat);
    return { ...choice, slot: seat.slot };
  });
  const g = { ...read, choices };
  const cutAfter = g.stream ? engine.takeCut() : undefined;
  const leave = (): void => {
    for (const [index, seat] of seats) board.leave(seat, encodeText(choices[index]!.text));
  };
  if (seats.size < choices.length) {
    nothing(kind, g, exchange, engine);
    return;
  }
  try {
    runGeneration(g, SHAPES[kind], exchange, engine.loop, {
      now: () => deps.clock.now(),
      wall: () => deps.clock.wall(),
      // Only streams notice that their client has gone (measured).
      outlivesClient: true,
      ...(cutAfter === undefined ? {} : { cutAfter }),
      onStart: (active) => engine.active.add(active),
      onEnd(active) {
        leave();
        engine.ended(active);
      },
      onDone: (told) => engine.tally(told, g.prompt.length),
    });
  } catch (e) {
    leave();
    throw e;
  }
}

/** An empty prompt is answered at once, with nothing. */
function nothing(kind: LlamaKind, g: Generation, exchange: Exchange, { deps }: SimEngine): void {
  const use = { cachedTokens: 0, createdCacheTokens: 0 };
  const told = { use, promptMs: 0, predictedMs: 0, generated: [0], now: deps.clock.wall() };
  if (!g.stream) {
    exchange.sendJson(200, SHAPES[kind].whole(g, told));
    return;
  }
  exchange.openStream();
  const frames = [...g.choices.flatMap((choice) => SHAPES[kind].last(g, choice, told)), ...SHAPES[kind].end(g, told)];
  for (const { event, data } of frames) exchange.event(typeof data === "string" ? data : JSON.stringify(data), event);
  exchange.end();
}

const unsupported =
  (message: string): Route =>
  (exchange) => {
    const { status, body } = failure(501, message);
    exchange.sendJson(status, body);
  };

const NO_EMBEDDINGS = unsupported("This server does not support embeddings. Start it with `--embeddings`");
const NO_RERANKING = unsupported("This server does not support reranking. Start it with `--reranking`");

const tokenize: Route = guarded(async (exchange) => {
  const { content, with_pieces: pieces } = fieldsOf(await bodyOf(exchange));
  if (content !== undefined && typeof content !== "string") throw new LlamaRefusal(400, typeError("string", content));
  const ids = encodeText(content ?? "");
  const tokens = pieces === true ? ids.map((id) => ({ id, piece: decodeIds([id]) })) : ids;
  exchange.sendJson(200, { tokens });
});

const detokenize: Route = guarded(async (exchange) => {
  const { tokens = [] } = fieldsOf(await bodyOf(exchange));
  if (!Array.isArray(tokens)) throw new LlamaRefusal(400, typeError("array", tokens));
  const wrong = tokens.find((id) => typeof id !== "number" || id < 0 || id > 255) as number | undefined;
  if (wrong !== undefined) {
    const n = BigInt.asUintN(64, BigInt(Math.trunc(Number(wrong) || 0)));
    throw new LlamaRefusal(500, `vector::_M_range_check: __n (which is ${n}) >= this->size() (which is 256)`);
  }
  exchange.sendJson(200, { content: decodeIds(tokens as number[]) });
});

const applyTemplate: Route = guarded(async (exchange) => {
  const body = await bodyOf(exchange);
  checkChat(body);
  exchange.sendJson(200, { prompt: decodeIds(chatIds(body)) });
});

const countChat: Route = guarded(async (exchange) => {
  const body = await bodyOf(exchange);
  checkChat(body);
  exchange.sendJson(200, { input_tokens: chatIds(body).length, object: "response.input_tokens" });
});

const countMessages: Route = guarded(async (exchange) => {
  const chat = fromMessages(fieldsOf(await bodyOf(exchange)));
  checkChat(chat);
  exchange.sendJson(200, { input_tokens: chatIds(chat).length });
});

const slots: Route = (exchange, { slots: board, options, loop }) => {
  if (options.llama?.slotsEndpoint === false) return unsupportedEndpoint(exchange, "slots", "--slots");
  const full = loop.model.running >= (board?.count ?? 1);
  if (exchange.query.get("fail_on_no_slot") !== null && full) {
    const { status, body } = failure(503, "no slot available");
    return exchange.sendJson(status, body);
  }
  exchange.sendJson(200, board?.list() ?? []);
};

function unsupportedEndpoint(exchange: Exchange, name: string, flag: string): void {
  const { status, body } = failure(501, `This server does not support ${name} endpoint. Start it with \`${flag}\``);
  exchange.sendJson(status, body);
}

/** `/slots/{id}?action=save|restore|erase`. What is saved is kept in memory: there is nothing in it. */
const slotAction = (name: string): Route =>
  guarded(async (exchange, { options, slots: board }) => {
    const action = exchange.query.get("action") ?? "";
    if (options.llama?.slotSavePath === undefined) {
      throw new LlamaRefusal(501, "This server does not support slots action. Start it with `--slot-save-path`");
    }
    if (!/^-?\d+/.test(name)) throw new LlamaRefusal(400, "Invalid slot ID");
    const id = Number.parseInt(name, 10);
    if (action === "erase") return exchange.sendJson(200, { id_slot: id, n_erased: board!.erase(id) });
    if (action !== "save" && action !== "restore") throw new LlamaRefusal(400, "Invalid action");
    const { filename } = fieldsOf(await bodyOf(exchange));
    if (filename === undefined) throw new LlamaRefusal(400, missingKey("filename"));
    if (typeof filename !== "string") throw new LlamaRefusal(400, typeError("string", filename));
    if (filename === "" || /[\\/:*?"<>|]|^\.+$/.test(filename)) throw new LlamaRefusal(400, "Invalid filename");
    if (action === "save") {
      const tokens = board!.save(id, filename);
      const timing = { save_ms: 0.1 };
      return exchange.sendJson(200, {
        id_slot: id,
        filename,
        n_saved: tokens,
        n_written: savedBytes(tokens),
        timings: timing,
      });
    }
    const tokens = board!.restore(id, filename);
    if (tokens === undefined) {
      throw new LlamaRefusal(400, "Unable to restore slot: No available space in KV cache or invalid slot save file");
    }
    const timing = { restore_ms: 0.1 };
    exchange.sendJson(200, { id_slot: id, filename, n_restored: tokens, n_read: savedBytes(tokens), timings: timing });
  });

const health: Route = (exchange) => exchange.sendJson(200, { status: "ok" });
const models: Route = (exchange, { options, deps }) =>
  exchange.sendJson(200, llamaModels(options, Math.floor(deps.clock.wall() / 1000)));

/** Without the path in it. */
export const LLAMA_ROUTES: RouteTable = {
  "GET /health": health,
  "GET /v1/health": health,
  "GET /v1/models": models,
  "GET /models": models,
  "GET /props": (exchange, { options, slots: board }) => exchange.sendJson(200, llamaProps(options, board?.count ?? 1)),
  "POST /props": (exchange, { options }) =>
    options.llama?.propsEndpoint === true
      ? exchange.sendJson(200, { success: true })
      : exchange.sendJson(
          501,
          failure(501, "This server does not support changing global properties. Start it with `--props`").body,
        ),
  "GET /slots": slots,
  "GET /metrics": (exchange, engine) =>
    engine.options.metrics
      ? exchange.sendText(200, llamaMetrics(engine), "text/plain; version=0.0.4")
      : unsupportedEndpoint(exchange, "metrics", "--metrics"),
  "GET /lora-adapters": (exchange) => exchange.sendJson(200, []),
  "POST /lora-adapters": (exchange) => exchange.sendJson(200, { success: true }),
  "POST /tokenize": tokenize,
  "POST /detokenize": detokenize,
  "POST /apply-template": applyTemplate,
  "POST /infill": unsupported(
    "Infill is not supported by this model: prefix token is missing. suffix token is missing. middle token is missing. ",
  ),
  "POST /v1/audio/transcriptions": unsupported("The current model does not support audio input."),
  ...Object.fromEntries(["/embedding", "/embeddings", "/v1/embeddings"].map((path) => [`POST ${path}`, NO_EMBEDDINGS])),
  ...Object.fromEntries(
    ["/rerank", "/reranking", "/v1/rerank", "/v1/reranking"].map((path) => [`POST ${path}`, NO_RERANKING]),
  ),
  "POST /v1/chat/completions": generation("chat"),
  "POST /chat/completions": generation("chat"),
  "POST /v1/chat/completions/input_tokens": countChat,
  "POST /v1/completions": generation("completion"),
  "POST /completion": generation("native"),
  "POST /completions": generation("native"),
  "POST /v1/messages": generation("messages"),
  "POST /v1/messages/count_tokens": countMessages,
  "POST /v1/responses": generation("responses"),
  "POST /responses": generation("responses"),
};

/** The route of a request; undefined for what llama-server has not. */
export function llamaRoute(method: string, path: string): Route | undefined {
  const slot = /^\/slots\/([^/]+)$/.exec(path);
  if (slot !== null && method === "POST") return slotAction(slot[1]!);
  return LLAMA_ROUTES[`${method === "HEAD" ? "GET" : method} ${path}`];
}
