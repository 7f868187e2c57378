import type { Exchange } from "./accept.ts";

/** `[router.cors]`. */
export interface CorsRules {
  /** `*`: any page. */
  readonly origins: readonly string[];
  /** More request headers that pages may send. */
  readonly headers: readonly string[];
  readonly maxAgeMs: number;
}

/** What OpenAI's and Anthropic's clients send from a page (`x-stainless-…` is named by the browser's question itself). */
const USUAL = [
  "authorization",
  "content-type",
  "x-api-key",
  "anthropic-version",
  "anthropic-beta",
  "anthropic-dangerous-direct-browser-access",
  "openai-organization",
  "openai-project",
  "openai-beta",
  "x-request-id",
  "x-cgn-session",
  "x-cgn-priority",
  "x-cgn-deadline-ms",
];

const EXPOSED = [
  "x-request-id",
  "x-cgn-node",
  "x-cgn-cache-hit",
  "x-cgn-predicted-cached-tokens",
  "x-cgn-prompt-tokens",
  "x-cgn-cascade-step",
  "retry-after",
  "x-ratelimit-limit-requests",
  "x-ratelimit-remaining-requests",
  "x-ratelimit-reset-requests",
  "x-ratelimit-limit-tokens",
  "x-ratelimit-remaining-tokens",
  "x-ratelimit-reset-tokens",
].join(", ");

/**
 * Set the headers that let a page read the answer, and answer a browser's question before the request (preflight, which has no key).
 * Credentials (cookies) are never allowed: keys come in headers that the page itself sets.
 * @returns true when the exchange is answered
 */
export function answerCors(rules: CorsRules, { req, res, method }: Exchange): boolean {
  const { origin } = req.headers;
  if (origin === undefined) return false;
  const any = rules.origins.includes("*");
  const allowed = any || rules.origins.includes(origin);
  // Another page gets another answer: caches must know.
  if (!any) res.setHeader("vary", "Origin");
  if (allowed) {
    res.setHeader("access-control-allow-origin", any ? "*" : origin);
    res.setHeader("access-control-expose-headers", EXPOSED);
  }
  if (method !== "OPTIONS" || req.headers["access-control-request-method"] === undefined) return false;
  if (allowed) {
    const asked = (req.headers["access-control-request-headers"] ?? "").toLowerCase().split(/\s*,\s*/);
    const stainless = asked.filter((name) => /^x-stainless-[\w-]{1,64}$/.test(name)).slice(0, 32);
    res.setHeader("access-control-allow-methods", "GET, POST, OPTIONS");
    res.setHeader("access-control-allow-headers", [...USUAL, ...rules.headers, ...stainless].join(", "));
    res.setHeader("access-control-max-age", String(Math.floor(rules.maxAgeMs / 1000)));
  }
  res.writeHead(204).end();
  return true;
}
