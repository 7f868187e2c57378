import { sglangMetrics } from "./metrics-text.ts";
import {
  type Dialect,
  detokenizeRoute,
  generationRoute,
  type Route,
  type RouteTable,
  tokenizeRoute,
} from "./routes.ts";
import {
  sglangChat,
  sglangCompletion,
  sglangError,
  sglangLoads,
  sglangModelInfo,
  sglangModels,
  sglangServerInfo,
} from "./sglang-bodies.ts";

const DIALECT: Dialect = {
  shapes: { chat: sglangChat, completion: sglangCompletion },
  anyModel: true,
  rank(_, body) {
    const rank =
      typeof body === "object" && body !== null && "routed_dp_rank" in body ? body.routed_dp_rank : undefined;
    return typeof rank === "number" ? rank : undefined;
  },
  callId: (engine) => `call_${engine.deps.newId().slice(0, 24)}`,
  newId: (_chat, _exchange, engine) => engine.deps.newId(),
  refusal: ({ why, message }) => ({
    status: 400,
    body: sglangError(400, why === "malformed" ? "Bad Request" : "BadRequestError", message),
  }),
  failure: (status, message) => ({ status, body: sglangError(status, "InternalServerError", message) }),
  draining: () => ({ status: 503, body: sglangError(503, "ServiceUnavailableError", "The server is shutting down.") }),
};

const health: Route = (exchange, { phase }) => exchange.sendText(phase === "ready" ? 200 : 503, "");

const serverInfo: Route = (exchange, { options }) =>
  exchange.sendJson(200, sglangServerInfo(options, { host: options.host, port: options.port }));

const modelInfo: Route = (exchange, { options }) => exchange.sendJson(200, sglangModelInfo(options));

const FLUSHED =
  "Cache flushed.\nPlease check backend logs for more details. (When there are running or waiting requests, the operation will not be performed.)\n";

const flush: Route = (exchange, { loop }) => {
  const done = loop.model.running + loop.model.waiting === 0 && loop.reset();
  exchange.sendText(done ? 200 : 400, FLUSHED);
};

const tokenize = tokenizeRoute(DIALECT, {});
const detokenize = detokenizeRoute("text", DIALECT);

/** SGLang 0.5.23's surface, as far as it is simulated. */
export const SGLANG_ROUTES: RouteTable = {
  "GET /health": health,
  "GET /health_generate": health,
  "GET /ping": (exchange) => exchange.sendText(200, ""),
  "GET /v1/models": (exchange, { options, deps }) =>
    exchange.sendJson(200, sglangModels(options, Math.floor(deps.clock.wall() / 1000))),
  "GET /server_info": serverInfo,
  "GET /get_server_info": serverInfo,
  "GET /model_info": modelInfo,
  "GET /get_model_info": modelInfo,
  "GET /v1/loads": (exchange, { options, loop, deps }) =>
    exchange.sendJson(200, sglangLoads(options, loop.model, deps.clock.wall())),
  "GET /metrics": (exchange, { options, loop }) =>
    options.metrics
      ? exchange.sendText(200, sglangMetrics(options, loop), "text/plain; version=0.0.4; charset=utf-8")
      : exchange.sendJson(404, { detail: "Not Found" }),
  "GET /flush_cache": flush,
  "POST /flush_cache": flush,
  "POST /tokenize": tokenize,
  "POST /v1/tokenize": tokenize,
  "POST /detokenize": detokenize,
  "POST /v1/detokenize": detokenize,
  "POST /v1/chat/completions": generationRoute("chat", DIALECT),
  "POST /v1/completions": generationRoute("completion", DIALECT),
};
