/**
 * What a path is to the router. `chat` and `completion` have a prompt to match, `messages` (Anthropic's) and `responses` one in another
 * form; `embedding` and `text` have a body with a model; `other` is passed on by whatever names a model; the router itself answers
 * `models` and `health`.
 */
export type EndpointKind =
  | "chat"
  | "completion"
  | "messages"
  | "responses"
  | "embedding"
  | "text"
  | "models"
  | "health"
  | "other";

/** In whose form a client reads errors and events. */
export type ApiShape = "openai" | "anthropic" | "responses";

export interface Endpoint {
  readonly kind: EndpointKind;
  /** Undefined: any. */
  readonly method?: "GET" | "POST";
}

const post = (kind: EndpointKind): Endpoint => ({ kind, method: "POST" });

const KNOWN: Readonly<Record<string, Endpoint>> = {
  "/v1/chat/completions": post("chat"),
  "/v1/completions": post("completion"),
  "/v1/messages": post("messages"),
  "/v1/messages/count_tokens": post("text"),
  "/v1/responses": post("responses"),
  "/v1/embeddings": post("embedding"),
  "/v1/rerank": post("text"),
  "/rerank": post("text"),
  "/v2/rerank": post("text"),
  "/v1/score": post("text"),
  "/score": post("text"),
  "/v1/classify": post("text"),
  "/classify": post("text"),
  "/pooling": post("text"),
  "/v1/models": { kind: "models", method: "GET" },
  "/health": { kind: "health", method: "GET" },
  "/tokenize": post("text"),
  "/detokenize": post("text"),
};

/** Paths below `/v1/` by which an engine is run, not asked: an operator uses them on the engine itself. */
const ADMINISTRATIVE = new Set(["/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/v1/loads"]);

/** Find what a path is; undefined for one that the router does not serve. */
export function findEndpoint(path: string): Endpoint | undefined {
  if (Object.hasOwn(KNOWN, path)) return KNOWN[path];
  if (path.startsWith("/v1/models/")) return KNOWN["/v1/models"];
  const bare = path.endsWith("/") ? path.slice(0, -1) : path;
  return path.startsWith("/v1/") && !ADMINISTRATIVE.has(bare) ? { kind: "other" } : undefined;
}

/** All paths that are known by name. */
export const KNOWN_PATHS: readonly string[] = Object.keys(KNOWN);

/** Is it the path of an endpoint that the router knows by name? */
export function isKnownPath(path: string): boolean {
  return Object.hasOwn(KNOWN, path);
}

/**
 * In whose form the client of a request reads answers of the router's own. Two of Anthropic's paths are OpenAI's too; its clients tell
 * the version of their API.
 */
export function shapeOf(path: string, anthropicVersion: unknown): ApiShape {
  if (path === "/v1/messages" || path.startsWith("/v1/messages/")) return "anthropic";
  if (path === "/v1/responses") return "responses";
  return anthropicVersion !== undefined && findEndpoint(path)?.kind === "models" ? "anthropic" : "openai";
}
