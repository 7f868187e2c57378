import type { IncomingMessage, ServerResponse } from "node:http";
import { CgnError } from "../core/errors.ts";
import { sendJson } from "../http/error-body.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { Agent } from "./agent.ts";

/** `/healthz` (the agent lives), `/readyz` (200 once an engine is ready, with each one's state and why), `/metrics`. */
export function adminHandler(
  agent: Agent,
  metrics: Metrics,
): (req: IncomingMessage, res: ServerResponse) => Promise<void> {
  return async (req, res) => {
    const path = (req.url ?? "/").split("?")[0] ?? "/";
    if (req.method !== "GET" && req.method !== "HEAD") {
      throw new CgnError("METHOD_NOT_ALLOWED", `Cannot ${req.method} ${path}: it is only read. Use GET`, {});
    }
    if (path === "/healthz") return sendJson(res, 200, { status: "ok" });
    if (path === "/metrics") {
      const text = await metrics.text();
      res.writeHead(200, { "content-type": metrics.contentType }).end(text);
      return;
    }
    if (path !== "/readyz") {
      throw new CgnError("ROUTE_NOT_FOUND", `Cannot find ${path}: the agent has /healthz, /readyz and /metrics`, {});
    }
    const engines = agent.status().map(({ worker, spawned, starts, progress }) => ({
      id: worker.id,
      models: worker.models,
      state: worker.state,
      reason: worker.reason,
      spawned,
      starts,
      ...(progress === undefined ? {} : { progress }),
    }));
    // What is loaded when it is wanted is as good as ready.
    const ready = engines.some(({ state }) => state === "ready" || state === "unloaded" || state === "asleep");
    sendJson(res, ready ? 200 : 503, { ready, engines });
  };
}
