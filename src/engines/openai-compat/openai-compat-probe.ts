import type { EngineProbe, ProbeReply } from "../engine.ts";
import { readModelList } from "../probe-text.ts";

/** Readers of what every OpenAI-compatible endpoint answers: its model list. */
export const openaiCompatProbe: EngineProbe = {
  ready: { path: "/v1/models", verdict },
  models: { path: "/v1/models", parse: readModelList },
};

/**
 * An endpoint that asks for a key (401, 403) or has no list (404) is up: clients bring their own key.
 * Gateways answer 502 to 504 while what is behind them starts.
 */
function verdict({ status }: ProbeReply): "ready" | "loading" | "failed" {
  if ([200, 401, 403, 404].includes(status)) return "ready";
  return [0, 429, 502, 503, 504].includes(status) ? "loading" : "failed";
}
