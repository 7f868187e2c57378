import { API_PATHS } from "../core/api-paths.ts";
import { CgnError } from "../core/errors.ts";
import { isKnownPath, KNOWN_PATHS } from "./endpoints.ts";

/**
 * Does an answer say that the engine has no such path? FastAPI (vLLM, SGLang) answers a path without a route with exactly this; so do
 * llama-server and MLX with theirs.
 */
export function saysMissing(status: number, body: Buffer): boolean {
  if (!(status === 404 || status === 405) || body.length > 1_024) return false;
  const text = body.toString("utf8").trim();
  if (status === 405) return /^\{"detail": ?"Method Not Allowed"\}$/.test(text);
  return /^(\{"detail": ?"Not Found"\}|Not Found|)$/.test(text) || text.includes('"File Not Found"');
}

/** Is it a path that is known by name, here or as an engine's? */
export function isNamedPath(path: string): boolean {
  return isKnownPath(path) || path.startsWith("/v1/models/") || API_PATHS.includes(path);
}

/** There is no such path: with those there are. @param is why, where it is not just the router that has none */
export function noSuchPath(path: string, is = "the router has no such path"): CgnError {
  const there = `There is ${KNOWN_PATHS.join(", ")}, and what else a model's engine has below /v1/`;
  return new CgnError("ROUTE_NOT_FOUND", `Cannot find ${path}: ${is}. ${there}`, { path }) as CgnError;
}
