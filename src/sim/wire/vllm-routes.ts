import { chatMessages, withChatTools } from "./anthropic-tools.ts";
import { vllmMetrics } from "./metrics-text.ts";
import { missing } from "./pydantic.ts";
import { chatPrompt, type Refusal } from "./read-request.ts";
import {
  type Answer,
  type Dialect,
  type GenerationKind,
  generationRoute,
  type Route,
  type RouteTable,
} from "./routes.ts";
import { detokenizeRoute, tokenizeRoute } from "./tokenize-routes.ts";
import { vllmChat, vllmCompletion, vllmError, vllmEventSources, vllmModels } from "./vllm-bodies.ts";
import { brokenJson, checkVllm, malformed, VLLM_TOKENIZE } from "./vllm-checks.ts";
import { vllmMessages, vllmResponses } from "./vllm-protocols.ts";

type Body = Readonly<Record<string, unknown>>;

const PREFIXES: Readonly<Record<GenerationKind, string>> = {
  chat: "chatcmpl-",
  completion: "cmpl-",
  messages: "chatcmpl-",
  responses: "resp_",
  generate: "",
};

const DIALECT: Dialect = {
  shapes: { chat: vllmChat, completion: vllmCompletion, messages: vllmMessages, responses: vllmResponses },
  anyModel: false,
  rank: (exchange) => rankOf(exchange.header("x-data-parallel-rank")),
  callId: (engine) => `chatcmpl-tool-${engine.deps.newId().slice(0, 16)}`,
  newId(kind, exchange, engine) {
    const given = kind === "responses" ? undefined : exchange.header("x-request-id");
    // The same header may come twice; the model knows a request by its own id.
    return PREFIXES[kind] + (given ?? engine.deps.newId().slice(0, 16));
  },
  check(kind, value) {
    if (kind === "messages") return checkMessages(value);
    return kind === "responses" ? checkResponses(value) : checkVllm(kind === "chat" ? "chat" : "completion", value);
  },
  broken: brokenJson,
  wrongMedia(type) {
    // Without a type it is taken for JSON.
    if (type === "" || /^application\/(.*\+)?json\b/.test(type)) return undefined;
    const message = "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed";
    return { status: 400, body: vllmError(400, "Bad Request", message) };
  },
  refusal: ({ why, message, param }, kind) => refusal({ why, message, param }, kind),
  failure: (status, message) => ({ status, body: vllmError(status, "InternalServerError", message) }),
  // Seen on 0.32.0 during --shutdown-timeout: 500, not 503; and other words when the engine is gone.
  draining: (phase) => ({
    status: 500,
    body: vllmError(
      500,
      "InternalServerError",
      phase === "dead"
        ? "EngineCore encountered an issue. See stack trace (above) for the root cause."
        : "cannot schedule new futures after shutdown",
    ),
  }),
};

function refusal({ why, message, param }: Refusal, kind: GenerationKind): Answer {
  const status = why === "unknown-model" ? 404 : 400;
  const type = why === "unknown-model" ? "NotFoundError" : why === "malformed" ? "Bad Request" : "BadRequestError";
  if (kind === "messages") return { status, body: { type: "error", error: { type, message } } };
  return { status, body: vllmError(status, type, message, param) };
}

/** Anthropic's form, as a chat. */
function checkMessages(value: unknown): ReturnType<Dialect["check"]> {
  const body = (typeof value === "object" && value !== null ? value : {}) as Body;
  for (const name of ["messages", "max_tokens"]) if (body[name] === undefined) return malformed([missing(name, body)]);
  const system = body["system"] === undefined ? [] : [{ role: "system", content: body["system"] }];
  const messages = chatMessages(body) ?? [...system, ...(Array.isArray(body["messages"]) ? body["messages"] : [])];
  if (messages.length === 0) {
    const message = "Cannot apply chat template to an empty conversation. Provide at least one message.";
    return { status: 400, body: { type: "error", error: { type: "BadRequestError", message } } };
  }
  const { stop_sequences: stop, ...rest } = withChatTools(body);
  return checkVllm("chat", { ...rest, messages, ...(stop === undefined ? {} : { stop }) });
}

/** `/v1/responses`, as a chat. */
function checkResponses(value: unknown): ReturnType<Dialect["check"]> {
  const body = (typeof value === "object" && value !== null ? value : {}) as Body;
  const { input, instructions, max_output_tokens: limit, previous_response_id: previous } = body;
  if (input === undefined) return malformed([missing("input", body)]);
  if (typeof input !== "string" && !Array.isArray(input)) {
    const loc = ["body", "input"];
    return malformed([
      { type: "string_type", loc, msg: "Input should be a valid string", input },
      { type: "list_type", loc, msg: "Input should be a valid list", input },
    ]);
  }
  if (typeof previous === "string") {
    const message = `Response with id '${previous}' not found.`;
    return { status: 404, body: vllmError(404, "invalid_request_error", message, "response_id") };
  }
  const asked = typeof input === "string" ? [{ role: "user", content: input }] : input;
  const system = typeof instructions === "string" ? [{ role: "system", content: instructions }] : [];
  return checkVllm("chat", {
    ...body,
    messages: [...system, ...asked],
    ...(limit === undefined ? {} : { max_tokens: limit }),
  });
}

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

/** Rendering for other hosts is off without `--enable-scale-out`. */
const scaleOut: Route = (exchange) => {
  const message = "Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them.";
  exchange.sendJson(403, vllmError(403, "PermissionDeniedError", message));
};

const countMessages: Route = async (exchange, { options }) => {
  const checked = checkMessages({ max_tokens: 1, ...((await exchange.json()) as object) });
  if (!("ok" in checked)) return exchange.sendJson(checked.status, checked.body);
  const ids = chatPrompt(options.kind, checked.ok);
  const count = typeof ids === "string" ? 0 : ids.length;
  exchange.sendJson(200, { input_tokens: count, context_management: { original_input_tokens: count } });
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
  "POST /tokenize": tokenizeRoute(VLLM_TOKENIZE, true),
  "POST /detokenize": detokenizeRoute("prompt", VLLM_TOKENIZE),
  "GET /load": (exchange, { active }) => exchange.sendJson(200, { server_load: active.size }),
  ...Object.fromEntries(
    ["/v1/chat/completions/render", "/v1/completions/render", "/v1/messages/render", "/inference/v1/generate"].map(
      (path) => [`POST ${path}`, scaleOut],
    ),
  ),
  "POST /v1/messages": generationRoute("messages", DIALECT),
  "POST /v1/messages/count_tokens": countMessages,
  "POST /v1/responses": generationRoute("responses", DIALECT),
  "POST /v1/chat/completions": generationRoute("chat", DIALECT),
  "POST /v1/completions": generationRoute("completion", DIALECT),
};
