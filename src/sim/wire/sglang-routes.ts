import { chatMessages, withChatTools } from "./anthropic-tools.ts";
import { sglangMetrics } from "./metrics-text.ts";
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
import { wantedCall, wantedJson } from "./settle-answer.ts";
import {
  ollamaTags,
  sglangChat,
  sglangCompletion,
  sglangError,
  sglangLoads,
  sglangModelInfo,
  sglangModels,
  sglangServerInfo,
} from "./sglang-bodies.ts";
import { checkSglang, SGLANG_TOKENIZE, sglangBroken, sglangMalformed } from "./sglang-checks.ts";
import { sglangGenerate, sglangMessages, sglangResponses } from "./sglang-protocols.ts";
import { detokenizeRoute, tokenizeRoute } from "./tokenize-routes.ts";

type Body = Readonly<Record<string, unknown>>;

const PREFIXES: Readonly<Record<GenerationKind, string>> = {
  chat: "",
  completion: "",
  messages: "msg_",
  responses: "resp_",
  generate: "",
};

const DIALECT: Dialect = {
  shapes: {
    chat: sglangChat,
    completion: sglangCompletion,
    messages: sglangMessages,
    responses: sglangResponses,
    generate: sglangGenerate,
  },
  anyModel: true,
  rank(_, body) {
    const rank =
      typeof body === "object" && body !== null && "routed_dp_rank" in body ? body.routed_dp_rank : undefined;
    return typeof rank === "number" ? rank : undefined;
  },
  callId: (engine) => `call_${engine.deps.newId().slice(0, 24)}`,
  newId: (kind, _exchange, engine) => PREFIXES[kind] + engine.deps.newId(),
  check(kind, value, path) {
    const body = (typeof value === "object" && value !== null ? value : {}) as Body;
    if (kind === "messages") return checkMessages(body, path);
    if (kind === "responses") return checkResponses(body, path);
    return kind === "generate" ? checkGenerate(body) : checkSglang(kind, value, path);
  },
  broken: (text, path) => brokenFor(path, text),
  wrongMedia(type) {
    if (type === "" || /^application\/(.*\+)?json\b/.test(type)) return undefined;
    const finding = `{'loc': ['header', 'content-type'], 'msg': "Unsupported Media Type: Only 'application/json' is allowed", 'type': 'value_error'}`;
    return { status: 400, body: sglangError(400, "Bad Request", `1 validation error:\n  ${finding} [${finding}]`) };
  },
  late({ body, id, model }, { options }) {
    // Of all its APIs only this one looks at the name.
    if (id.startsWith("resp_") && !options.models.includes(model)) {
      const error = {
        message: `The model '${model}' does not exist`,
        type: "invalid_request_error",
        param: "model",
        code: 404,
      };
      return { whole: { status: 404, body: { error } }, event: { error } };
    }
    if (options.grammar !== false || (wantedJson(body) === undefined && wantedCall(body, "") === undefined))
      return undefined;
    const message =
      "Grammar-based generation (json_schema, regex, ebnf, structural_tag) is not supported when the server is launched with --grammar-backend none";
    return {
      whole: { status: 400, body: sglangError(400, "BadRequestError", message) },
      event: { error: sglangError(400, "BAD_REQUEST", message) },
    };
  },
  refusal({ why, message }: Refusal, kind) {
    if (kind === "messages") return anthropicError(message);
    return { status: 400, body: sglangError(400, why === "malformed" ? "Bad Request" : "BadRequestError", message) };
  },
  failure: (status, message) => ({ status, body: sglangError(status, "InternalServerError", message) }),
  draining: () => ({ status: 503, body: sglangError(503, "ServiceUnavailableError", "The server is shutting down.") }),
};

const anthropicError = (message: string): Answer => ({
  status: 400,
  body: { type: "error", error: { type: "invalid_request_error", message } },
});

function checkMessages(body: Body, path: string): ReturnType<Dialect["check"]> {
  for (const name of ["messages", "max_tokens"]) {
    if (body[name] === undefined) return anthropicError(`${name}: Field required`);
  }
  if (Array.isArray(body["messages"]) && body["messages"].length === 0)
    return anthropicError("Messages cannot be empty.");
  return checkSglang("chat", asMessages(body), path);
}

function asMessages(body: Body): Body {
  const { system, stop_sequences: stop, ...rest } = withChatTools(body);
  const head = system === undefined ? [] : [{ role: "system", content: system }];
  const { messages } = rest;
  return {
    ...rest,
    ...(Array.isArray(messages) ? { messages: chatMessages(body) ?? [...head, ...messages] } : {}),
    ...(stop === undefined ? {} : { stop }),
  };
}

/** The Responses API puts its errors into an envelope. */
function enveloped(answer: ReturnType<Dialect["check"]>): ReturnType<Dialect["check"]> {
  if ("ok" in answer) return answer;
  const { object: _, ...error } = answer.body as Body;
  return { ...answer, body: { error } };
}

function checkResponses(body: Body, path: string): ReturnType<Dialect["check"]> {
  const { input, previous_response_id: previous } = body;
  if (input === undefined) return enveloped(sglangMalformed([missing("input", body)], path));
  if (typeof input !== "string" && !Array.isArray(input)) {
    const loc = ["body", "input"];
    return enveloped(
      sglangMalformed(
        [
          { type: "string_type", loc: [...loc, "str"], msg: "Input should be a valid string", input },
          { type: "list_type", loc: [...loc, "list[dict[str,any]]"], msg: "Input should be a valid list", input },
        ],
        path,
      ),
    );
  }
  if (typeof previous === "string") {
    const message =
      "Response store is disabled. Stateful Responses require --enable-response-store on a standalone server; response storage is unavailable in PD mode.";
    return {
      status: 400,
      body: { error: { message, type: "invalid_request_error", param: "previous_response_id", code: 400 } },
    };
  }
  return enveloped(checkSglang("chat", asResponses(body), path));
}

/** What is no JSON, in the words of the API that was asked. */
function brokenFor(path: string, text: string): Answer {
  if (path === "/v1/messages") return anthropicError(`${text.length}: JSON decode error`);
  const answer = sglangBroken(text, path);
  return path === "/v1/responses" ? (enveloped(answer) as Answer) : answer;
}

function asResponses(body: Body): Body {
  const { input, instructions, max_output_tokens: limit } = body;
  const asked = typeof input === "string" ? [{ role: "user", content: input }] : input;
  const head = typeof instructions === "string" ? [{ role: "system", content: instructions }] : [];
  const messages = Array.isArray(asked) ? [...head, ...asked] : asked;
  return {
    ...body,
    ...(messages === undefined ? {} : { messages }),
    ...(limit === undefined ? {} : { max_tokens: limit }),
  };
}

const SAMPLING_NAMES: Readonly<Record<string, string>> = {
  max_new_tokens: "max_tokens",
  min_new_tokens: "min_tokens",
  sampling_seed: "seed",
};

/** `/generate`, as a completion. */
function checkGenerate(body: Body): Answer | { readonly ok: Body } {
  const bad = (message: string): Answer => ({ status: 400, body: { error: { message } } });
  const given = ["text", "input_ids", "input_embeds"].filter((name) => body[name] !== undefined && body[name] !== null);
  if (given.length !== 1) return bad("Either text, input_ids or input_embeds should be provided.");
  const sampling = (typeof body["sampling_params"] === "object" ? (body["sampling_params"] ?? {}) : {}) as Body;
  const unknown = Object.keys(sampling).find((name) => !SAMPLING_PARAMS.has(name));
  if (unknown !== undefined) return bad(`SamplingParams.__init__() got an unexpected keyword argument '${unknown}'`);
  const meant = Object.fromEntries(
    Object.entries(sampling).map(([name, value]) => [SAMPLING_NAMES[name] ?? name, value]),
  );
  return { ok: { max_tokens: 128, ...body, ...meant, prompt: body["text"] ?? body["input_ids"] } };
}

const SAMPLING_PARAMS = new Set(
  (
    "max_new_tokens stop stop_token_ids stop_regex temperature top_p top_k min_p frequency_penalty presence_penalty " +
    "repetition_penalty min_new_tokens n json_schema regex ebnf structural_tag ignore_eos skip_special_tokens " +
    "spaces_between_special_tokens no_stop_trim custom_params stream_interval logit_bias sampling_seed"
  ).split(" "),
);

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

const tokenize = tokenizeRoute(SGLANG_TOKENIZE, false);
const detokenize = detokenizeRoute("text", SGLANG_TOKENIZE);

const embeddings: Route = (exchange) => {
  const message =
    "This model does not appear to be an embedding model by default. Please add `--is-embedding` when launching the server or try another model.";
  exchange.sendJson(400, sglangError(400, "BadRequestError", message));
};

const countMessages: Route = async (exchange, { options }) => {
  const ids = chatPrompt(options.kind, asMessages((await exchange.json()) as Body));
  exchange.sendJson(200, { input_tokens: typeof ids === "string" ? 0 : ids.length });
};

/** `/v1/models/NAME`; any name is served. */
const oneModel: Route = (exchange, { options, deps }) => {
  const { data } = sglangModels(options, Math.floor(deps.clock.wall() / 1000)) as { readonly data: readonly object[] };
  exchange.sendJson(200, data[0]!);
};

/** SGLang's route of a request. */
export function sglangRoute(method: string, path: string): Route | undefined {
  if (method === "GET" && path.startsWith("/v1/models/")) return oneModel;
  return SGLANG_ROUTES[`${method} ${path}`];
}

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
  "POST /v1/messages": generationRoute("messages", DIALECT),
  "POST /v1/messages/count_tokens": countMessages,
  "POST /v1/responses": generationRoute("responses", DIALECT),
  "POST /generate": generationRoute("generate", DIALECT),
  "PUT /generate": generationRoute("generate", DIALECT),
  "POST /v1/embeddings": embeddings,
  "POST /v1/rerank": embeddings,
  "PUT /v1/rerank": embeddings,
  "POST /v1/audio/transcriptions": (exchange) => {
    const { status, body } = sglangMalformed(
      [{ type: "missing", loc: ["body", "file"], msg: "Field required", input: null }],
      exchange.path,
    );
    exchange.sendJson(status, body);
  },
  "GET /api/tags": (exchange, { options, deps }) => exchange.sendJson(200, ollamaTags(options, deps.clock.wall())),
};
