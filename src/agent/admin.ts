import type { IncomingMessage, ServerResponse } from "node:http";
import { CgnError } from "../core/errors.ts";
import { RELOAD_PATH, type ReloadReport, ROLE_PATH } from "../core/reload-report.ts";
import { sendJson } from "../http/error-body.ts";
import { requireLocalHost, requireLocalPost } from "../http/local-only.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { Agent } from "./agent.ts";

/**
 * `/healthz` (the agent lives), `/readyz` (200 once an engine is ready, with each one's state and why), `/metrics`, and with POST on
 * loopback `/v1/cgn/reload` and `/v1/cgn/role`.
 */
export function adminHandler(
  agent: Agent,
  metrics: Metrics,
  reload?: () => Promise<ReloadReport>,
  changeRole?: (node: string, role: string) => Promise<ReloadReport>,
): (req: IncomingMessage, res: ServerResponse) => Promise<void> {
  return async (req, res) => {
    const path = (req.url ?? "/").split("?")[0] ?? "/";
    if (path === RELOAD_PATH && reload !== undefined) {
      requireLocalHost(req, path);
      requireLocalPost(req, path, "cgn reload");
      return sendJson(res, 200, await reload());
    }
    if (path === ROLE_PATH && changeRole !== undefined) {
      requireLocalHost(req, path);
      requireLocalPost(req, path, "cgn role");
      const query = new URLSearchParams((req.url ?? "").split("?")[1] ?? "");
      return sendJson(res, 200, await changeRole(query.get("node") ?? "", query.get("role") ?? ""));
    }
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
      throw new CgnError(
        "ROUTE_NOT_FOUND",
        `Cannot find ${path}: the agent has /healthz, /readyz, /metrics and POST ${RELOAD_PATH} and ${ROLE_PATH}`,
        {},
      );
    }
    const engines = agent.status().map(({ worker, spawned, starts, progress, crashes, goodLog, badLog }) => ({
      id: worker.id,
      models: worker.models,
      state: worker.state,
      reason: worker.reason,
      spawned,
      starts,
      ...(progress === undefined ? {} : { progress }),
      ...(crashes ? { crashes } : {}),
      ...(goodLog === undefined ? {} : { good_log: goodLog }),
      ...(badLog === undefined ? {} : { bad_log: badLog }),
    }));
    // What is loaded when it is wanted is as good as ready.
    const ready = engines.some(({ state }) => state === "ready" || state === "unloaded" || state === "asleep");
    sendJson(res, ready ? 200 : 503, { ready, engines });
  };
}
