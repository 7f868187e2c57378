import { vllmMetrics } from "./metrics-text.ts";
import {
  type Dialect,
  detokenizeRoute,
  generationRoute,
  type Route,
  type RouteTable,
  tokenizeRoute,
} from "./routes.ts";
import { vllmChat, vllmCompletion, vllmError, vllmEventSources, vllmModels } from "./vllm-bodies.ts";

const DIALECT: Dialect = {
  shapes: { chat: vllmChat, completion: vllmCompletion },
  anyModel: false,
  rank: (exchange) => rankOf(exchange.header("x-data-parallel-rank")),
  callId: (engine) => `chatcmpl-tool-${engine.deps.newId().slice(0, 16)}`,
  newId(chat, exchange, engine) {
    const id = exchange.header("x-request-id") ?? engine.deps.newId().slice(0, 16);
    // The same header may come twice; the model knows a request by its id.
    return `${chat ? "chatcmpl" : "cmpl"}-${id}`;
  },
  refusal({ why, message, param }) {
    if (why === "unknown-model") return { status: 404, body: vllmError(404, "NotFoundError", message, param) };
    return {
      status: 400,
      body: vllmError(400, why === "malformed" ? "Bad Request" : "BadRequestError", message, param),
    };
  },
  failure: (status, message) => ({ status, body: vllmError(status, "InternalServerError", message) }),
  // Seen on 0.32.0 during --shutdown-timeout: 500, not 503.
  draining: () => ({
    status: 500,
    body: vllmError(500, "InternalServerError", "cannot schedule new futures after shutdown"),
  }),
};

function rankOf(text: string | undefined): number | undefined {
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : undefined;
}

/** vLLM answers these only with VLLM_SERVER_DEV_MODE=1. */
const devOnly =
  (route: Route): Route =>
  (exchange, engine) =>
    engine.options.devMode ? route(exchange, engine) : exchange.sendJson(404, { detail: "Not Found" });

/** 0.32.0: `level` 0 to 2, `mode` abort, wait or keep. Without `--enable-sleep-mode` the allocator has nothing to give back. */
const sleepRoute: Route = async (exchange, { sleep, options }) => {
  const level = Number(exchange.query.get("level") ?? 1);
  if (options.sleepMode !== true) return exchange.sendJson(500, { error: "sleep mode is not enabled" });
  if (exchange.query.get("mode") === "wait") await sleep.fallAsleep(level, true);
  else await sleep.fallAsleep(level, false);
  exchange.sendJson(200, { status: "sleeping", level });
};

const wakeRoute: Route = async (exchange, { sleep }) => {
  const tags = exchange.query.getAll("tags");
  const awake = await sleep.wake(tags);
  exchange.sendJson(200, { status: awake ? "awake" : "sleeping", tags: tags.length === 0 ? null : tags });
};

const rpcRoute: Route = async (exchange, { sleep }) => {
  const { method } = (await exchange.json()) as { readonly method?: string };
  if (method === "reload_weights") await sleep.reload();
  exchange.sendJson(200, { results: [null] });
};

/** vLLM 0.32.0's surface, as far as it is simulated. */
export const VLLM_ROUTES: RouteTable = {
  // 200 during a drain too: the real one's health does not tell.
  "GET /health": (exchange, { phase }) => exchange.sendText(phase === "dead" ? 503 : 200, ""),
  "GET /ping": (exchange) => exchange.sendText(200, ""),
  "POST /ping": (exchange) => exchange.sendText(200, ""),
  "GET /version": (exchange, { options }) => exchange.sendJson(200, { version: options.version, simulated: true }),
  "GET /v1/models": (exchange, { options, deps }) =>
    exchange.sendJson(200, vllmModels(options, Math.floor(deps.clock.wall() / 1000))),
  "GET /metrics": (exchange, { options, loop }) =>
    exchange.sendText(200, vllmMetrics(options, loop), "text/plain; version=1.0.0; charset=utf-8"),
  "GET /kv_event_sources": (exchange, { options }) => exchange.sendJson(200, vllmEventSources(options)),
  "POST /reset_prefix_cache": devOnly((exchange, { loop }) => exchange.sendJson(200, { success: loop.reset() })),
  "POST /sleep": devOnly(sleepRoute),
  "POST /wake_up": devOnly(wakeRoute),
  "GET /is_sleeping": devOnly((exchange, { sleep }) => exchange.sendJson(200, { is_sleeping: sleep.isAsleep })),
  "POST /collective_rpc": devOnly(rpcRoute),
  "POST /tokenize": tokenizeRoute(DIALECT, { token_strs: null }),
  "POST /detokenize": detokenizeRoute("prompt", DIALECT),
  "POST /v1/chat/completions": generationRoute("chat", DIALECT),
  "POST /v1/completions": generationRoute("completion", DIALECT),
};
