import type { IncomingMessage, ServerResponse } from "node:http";
import { type Access, requireScope } from "../access/access.ts";
import { CgnError } from "../core/errors.ts";
import { RELOAD_PATH, type ReloadReport, ROLE_PATH } from "../core/reload-report.ts";
import { hasCertificate, requireCertificate } from "../http/client-certificates.ts";
import { sendJson } from "../http/error-body.ts";
import { isFromLoopback, requireLocalHost, requireLocalPost } from "../http/local-only.ts";
import type { HttpTls } from "../http/server.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { Agent } from "./agent.ts";

/** What of the agent changes something, each absent where it cannot be done. */
export interface AgentActions {
  readonly reload?: (() => Promise<ReloadReport>) | undefined;
  readonly changeRole?: ((node: string, role: string) => Promise<ReloadReport>) | undefined;
  /** Keys that open the actions to callers from other hosts; without it nobody from elsewhere may act. */
  readonly access?: Access | undefined;
  /** Whose certificates are asked for; undefined: it speaks clear text. */
  readonly tls?: HttpTls | undefined;
}

/**
 * `/healthz` (the agent lives), `/readyz` (200 once an engine is ready, with each one's state and why), `/metrics`, and with POST
 * `/v1/cgn/reload` and `/v1/cgn/role`: for connections from loopback, and for keys of scope `admin`.
 */
export function adminHandler(
  agent: Agent,
  metrics: Metrics,
  { reload, changeRole, access, tls }: AgentActions = {},
): (req: IncomingMessage, res: ServerResponse) => Promise<void> {
  return async (req, res) => {
    const path = (req.url ?? "/").split("?")[0] ?? "/";
    if (path !== "/healthz" && path !== "/readyz") requireCertificate(req, tls, path);
    if (path === RELOAD_PATH && reload !== undefined) {
      await requireOperator(req, res, path, access);
      requireLocalPost(req, path, "cgn reload");
      return sendJson(res, 200, await reload());
    }
    if (path === ROLE_PATH && changeRole !== undefined) {
      await requireOperator(req, res, path, access);
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
    // Who shows no certificate where one is asked for learns whether, not what.
    sendJson(res, ready ? 200 : 503, hasCertificate(req, tls) ? { ready, engines } : { ready });
  };
}

/**
 * Whoever connects from this host by a loopback name may act, and elsewhere who has a key.
 * @throws CgnError HOST_REFUSED, ROUTE_NOT_FOUND, UNAUTHENTICATED, FORBIDDEN
 */
async function requireOperator(
  req: IncomingMessage,
  res: ServerResponse,
  path: string,
  access: Access | undefined,
): Promise<void> {
  if (isFromLoopback(req)) return requireLocalHost(req, path);
  if (access?.enabled !== true) {
    const should = "Ask on its own host, or set [auth].enabled with a key of scope admin";
    const message = `Cannot serve ${path} to other hosts: no key is configured that would allow it. ${should}`;
    throw new CgnError("ROUTE_NOT_FOUND", message, { path });
  }
  res.setHeader("www-authenticate", "Bearer");
  requireScope(await access.identify(req.headers, req.rawHeaders), "admin", path);
  res.removeHeader("www-authenticate");
}
