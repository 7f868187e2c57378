import { ADMIN_OPERATIONS, type AdminOperation } from "./admin-operations.ts";
import { FRONT_OPERATIONS, type FrontOperation } from "./front-operations.ts";
import { COMPONENTS } from "./openapi-components.ts";

/** Of what is served, not of the program: changed when a client would have to be. */
const API_VERSION = "1.0.0";

type Json = Readonly<Record<string, unknown>>;

/** The OpenAPI 3.1 document of what the router serves: the front port, where clients are, and the admin port. */
export function openApiDocument(): Json {
  const front = { url: "http://127.0.0.1:8080", description: "The endpoint (`[router].listen_http`)" };
  const admin = { url: "http://127.0.0.1:9091", description: "The admin port (`[router].listen_admin`)" };
  const paths: Record<string, Record<string, unknown>> = {};
  const add = (path: string, method: string, server: Json, operation: Json): void => {
    paths[path] = { ...(paths[path] ?? { servers: [server] }), [method]: operation };
  };
  for (const each of FRONT_OPERATIONS) add(each.path, each.method, front, frontOperation(each));
  for (const each of ADMIN_OPERATIONS) add(each.path, each.method, admin, adminOperation(each));
  return {
    openapi: "3.1.0",
    info: {
      title: "cgn",
      version: API_VERSION,
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
      description:
        "What the router of cgn serves. Bodies go to the engine as they came: members that are not listed are the engine's own. Other paths below /v1/ are passed on by the model that their body names.",
    },
    servers: [front, admin],
    security: [{}, { key: [] }, { anthropicKey: [] }],
    tags: [
      { name: "endpoint", description: "For clients: OpenAI's and Anthropic's APIs, and what engines add to them" },
      { name: "admin", description: "For operators: state, decisions, metrics, actions" },
    ],
    paths,
    components: COMPONENTS,
  };
}

const ref = (name: string): Json => ({ $ref: `#/components/schemas/${name}` });

function frontOperation(o: FrontOperation): Json {
  const error = { $ref: `#/components/responses/${o.form === "anthropic" ? "AnthropicRefused" : "Refused"}` };
  return {
    tags: ["endpoint"],
    operationId: o.id,
    summary: o.summary,
    ...parameters(o.parameters),
    ...(o.body === undefined ? {} : { requestBody: { required: true, content: bodyOf(o.body) } }),
    responses: {
      200: {
        description: "The engine's answer",
        headers: o.method === "get" ? {} : HEADERS,
        content: {
          ...json(answerOf(o)),
          ...(o.streams === true ? { "text/event-stream": { schema: { type: "string" } } } : {}),
        },
      },
      ...Object.fromEntries((o.method === "get" ? GET_ERRORS : ERRORS).map((status) => [status, error])),
      ...(o.id === "health" ? { 503: { description: "No model is served", content: json(answerOf(o)) } } : {}),
    },
  };
}

/** What the router itself may answer; an engine's own statuses come through besides. */
const ERRORS = [400, 401, 403, 404, 413, 429, 500, 501, 502, 503, 504];
const GET_ERRORS = [401, 403, 404];

const HEADERS = Object.fromEntries(
  ["x-request-id", "x-cgn-node", "x-cgn-predicted-cached-tokens", "x-cgn-cache-hit"].map((name) => [
    name,
    { $ref: `#/components/headers/${name}` },
  ]),
);

const json = (schema: Json): Json => ({ "application/json": { schema } });

const BODIES: Readonly<Record<Exclude<FrontOperation["body"], undefined>, string>> = {
  chat: "ChatRequest",
  completion: "CompletionRequest",
  messages: "MessagesRequest",
  responses: "ResponsesRequest",
  input: "InputRequest",
  form: "FormRequest",
  any: "ModelRequest",
};

function bodyOf(body: Exclude<FrontOperation["body"], undefined>): Json {
  return body === "form" ? { "multipart/form-data": { schema: ref(BODIES.form) } } : json(ref(BODIES[body]));
}

function answerOf({ id }: FrontOperation): Json {
  if (id === "listModels") return ref("ModelList");
  return id === "getModel" ? ref("Model") : { type: "object", additionalProperties: true };
}

function adminOperation(o: AdminOperation): Json {
  const types = { json: "application/json", text: "text/plain", page: "text/html" };
  const schema = o.answer === "json" ? { type: "object", additionalProperties: true } : { type: "string" };
  const query = Object.entries(o.query ?? {}).map(([name, { about, type }]) => ({
    name,
    in: "query",
    description: about,
    schema: { type },
  }));
  const all = [...pathParameters(o.parameters), ...query];
  const refused = o.scope === "open" ? {} : { 401: "No key, or a wrong one", 403: "The key has not this scope" };
  const others = Object.entries({ ...refused, ...o.others }).map(([status, description]) => [
    status,
    { description, content: json(o.tellsState === true ? schema : ref("Error")) },
  ]);
  return {
    tags: ["admin"],
    operationId: `admin_${o.id}`,
    summary: o.summary,
    description: SCOPES[o.scope],
    ...(all.length === 0 ? {} : { parameters: all }),
    ...(o.scope === "open" ? { security: [] } : {}),
    responses: {
      200: { description: "Done", content: { [types[o.answer]]: { schema } } },
      ...Object.fromEntries(others),
    },
  };
}

const SCOPES: Readonly<Record<AdminOperation["scope"], string>> = {
  open: "For everybody who reaches the port.",
  metrics: "On loopback for everybody, elsewhere for keys of scope `metrics` or `admin`.",
  admin: "On loopback for the operator's own commands, elsewhere and from web pages for keys of scope `admin`.",
};

const pathParameters = (given: Readonly<Record<string, string>> | undefined): Json[] =>
  Object.entries(given ?? {}).map(([name, description]) => ({
    name,
    in: "path",
    required: true,
    description,
    schema: { type: "string" },
  }));

const parameters = (given: Readonly<Record<string, string>> | undefined): Json =>
  given === undefined ? {} : { parameters: pathParameters(given) };
