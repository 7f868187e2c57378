/** One operation of the admin port. */
export interface AdminOperation {
  readonly path: string;
  readonly method: "get" | "post";
  readonly id: string;
  readonly summary: string;
  /** Who may: everybody; keys of scope `metrics` or `admin` (on loopback everybody); keys of scope `admin`. */
  readonly scope: "open" | "metrics" | "admin";
  readonly answer: "json" | "text" | "page";
  readonly query?: Readonly<Record<string, { readonly about: string; readonly type: "integer" | "string" }>>;
  readonly parameters?: Readonly<Record<string, string>>;
  /** What a status besides 200 means. */
  readonly others?: Readonly<Record<number, string>>;
  /** Its other statuses have the form of 200, not that of errors. */
  readonly tellsState?: true;
}

const get = (path: string, id: string, summary: string, more: Partial<AdminOperation> = {}): AdminOperation => ({
  path,
  method: "get",
  id,
  summary,
  scope: "metrics",
  answer: "json",
  ...more,
});
const post = (path: string, id: string, summary: string, more: Partial<AdminOperation> = {}): AdminOperation => ({
  ...get(path, id, summary, { scope: "admin", ...more }),
  method: "post",
});

const NO_PATH = "The path cannot be read";
const MODEL = {
  parameters: { name: "A model, or an engine's id" },
  others: { 400: NO_PATH, 404: "No such model is loaded on demand", 503: "Its agent cannot be reached" },
};
const NODE = {
  parameters: { id: "A node, or an engine's id" },
  others: { 400: NO_PATH, 404: "There is no such node", 503: "The cluster's state cannot be written" },
};
const ENGINES = {
  400: "The file, or the role, is wrong; nothing has changed",
  404: "This process keeps no engines",
};

/** Every operation of the admin port. A test compares them with the paths that admin.ts answers, both ways. */
export const ADMIN_OPERATIONS: readonly AdminOperation[] = [
  get("/", "page", "The dashboard", { answer: "page" }),
  get("/openapi.json", "openapi", "This document", { scope: "open" }),
  get("/healthz", "healthz", "The process lives", { scope: "open" }),
  get("/readyz", "readyz", "Some engine takes requests; why the others do not", {
    scope: "open",
    others: { 503: "No engine takes requests, or the router drains" },
    tellsState: true,
  }),
  get("/metrics", "metrics", "Metrics in Prometheus' text form", { scope: "open", answer: "text" }),
  get("/v1/cgn/status", "status", "Models, engines, load, predictions, alarms, the cluster"),
  get("/v1/cgn/dashboard", "dashboard", "All that the dashboard shows of this moment"),
  get("/v1/cgn/history", "history", "Figures over time", {
    query: { minutes: { about: "How far back, 1440 at most; default 60", type: "integer" } },
  }),
  get("/v1/cgn/prefixes", "prefixes", "The prefixes that were asked for most, and where they lie"),
  get("/v1/cgn/usage", "usage", "What each key used since the router started"),
  get("/v1/cgn/decisions", "decisions", "The last decisions, newest first", {
    query: { limit: { about: "How many, 2000 at most; default 100", type: "integer" } },
  }),
  get("/v1/cgn/decisions/{id}", "decision", "One decision: candidates, costs term by term, what came of it", {
    parameters: { id: "The answer's x-request-id" },
    others: { 400: NO_PATH, 404: "It is not among the last 2000" },
  }),
  get("/v1/cgn/logs", "logs", "The last lines that an engine of this process wrote", {
    scope: "admin",
    query: {
      engine: { about: "An engine's id", type: "string" },
      lines: { about: "How many, 500 at most; default 20", type: "integer" },
    },
    others: { 404: "It is not an engine of this process" },
  }),
  post("/v1/cgn/chat", "chat", "A chat completion for the dashboard: as POST /v1/chat/completions of the front port", {
    others: Object.fromEntries(
      [400, 404, 413, 429, 500, 501, 502, 503, 504].map((status) => [status, "As the front port answers"]),
    ),
  }),
  post("/v1/cgn/models/{name}/load", "load", "Load a model that is loaded on demand", MODEL),
  post("/v1/cgn/models/{name}/unload", "unload", "Unload it", MODEL),
  post("/v1/cgn/nodes/{id}/drain", "drain", "Send it no more requests; those that run end", NODE),
  post("/v1/cgn/nodes/{id}/cordon", "cordon", "Send it no new conversations", NODE),
  post("/v1/cgn/nodes/{id}/uncordon", "uncordon", "Take its mark away", NODE),
  get("/v1/cgn/config", "config", "Settings that all routers of the cluster share"),
  post("/v1/cgn/config", "shareConfig", "Share settings with all routers: `?KEY=VALUE`, and `?KEY=` to take one off", {
    others: {
      400: "A key or a value is wrong; nothing has changed",
      501: "The cluster's state has no place for it",
      503: "The cluster's state cannot be written",
    },
  }),
  post("/v1/cgn/reload", "reload", "Take over the changed configuration", { others: ENGINES }),
  post("/v1/cgn/role", "role", "Change a node's role (where this process keeps engines)", {
    query: {
      node: { about: "The node", type: "string" },
      role: { about: "both, prefill or decode", type: "string" },
    },
    others: ENGINES,
  }),
];
