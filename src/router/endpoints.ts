/**
 * What a path is to the router. `chat` and `completion` have a prompt to match; `embedding` and `text` have a body with a
 * model; `other` is passed on by whatever names a model.
 */
export type EndpointKind = "chat" | "completion" | "embedding" | "text" | "models" | "other";

export interface Endpoint {
  readonly kind: EndpointKind;
  /** Undefined: any. */
  readonly method?: "GET" | "POST";
}

const KNOWN: Readonly<Record<string, Endpoint>> = {
  "/v1/chat/completions": { kind: "chat", method: "POST" },
  "/v1/completions": { kind: "completion", method: "POST" },
  "/v1/embeddings": { kind: "embedding", method: "POST" },
  "/v1/models": { kind: "models", method: "GET" },
  "/tokenize": { kind: "text", method: "POST" },
  "/detokenize": { kind: "text", method: "POST" },
};

/** Find what a path is; undefined for one that the router does not serve. */
export function findEndpoint(path: string): Endpoint | undefined {
  if (Object.hasOwn(KNOWN, path)) return KNOWN[path];
  if (path.startsWith("/v1/models/")) return KNOWN["/v1/models"];
  return path.startsWith("/v1/") ? { kind: "other" } : undefined;
}

/** Is it the path of an endpoint that the router knows by name? */
export function isKnownPath(path: string): boolean {
  return Object.hasOwn(KNOWN, path);
}
