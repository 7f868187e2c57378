import type { EngineProbe, ProbeReply } from "../engine.ts";
import { readModelList } from "../probe-text.ts";

/**
 * Readers of mlx_lm server's answers (0.32.2).
 *
 * `/health` is 200 before the model is loaded, so readiness is an answer of one token: the request waits for the load. After
 * a failed load the process stays, and chats answer 404. `/v1/models` is empty where the hub's cache folder is missing.
 */
export const mlxProbe: EngineProbe = {
  ready: {
    path: "/v1/chat/completions",
    method: "POST",
    body: JSON.stringify({
      model: "default_model",
      messages: [{ role: "user", content: "Hi" }],
      max_tokens: 1,
      temperature: 0,
    }),
    verdict,
    answerMs: 5_000,
    alivePath: "/health",
  },
  models: { path: "/v1/models", parse: readModelList },
};

function verdict({ status }: ProbeReply): "ready" | "loading" | "failed" {
  if (status === 200) return "ready";
  return status === 0 || status === 503 ? "loading" : "failed";
}
