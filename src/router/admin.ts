import type { IncomingMessage, ServerResponse } from "node:http";
import { requireScope } from "../access/access.ts";
import type { Scope } from "../access/subject.ts";
import { CgnError } from "../core/errors.ts";
import type { Membership, NodeMark } from "../core/membership.ts";
import type { ModelLoader } from "../core/model-loader.ts";
import { RELOAD_PATH, ROLE_PATH } from "../core/reload-report.ts";
import { isLoopbackHost } from "../engines/address.ts";
import { hasCertificate, requireCertificate } from "../http/client-certificates.ts";
import { sendJson } from "../http/error-body.ts";
import { isOwnPage, requireLocalHost } from "../http/local-only.ts";
import type { HttpTls } from "../http/server.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { pageFile, sendPageFile } from "../web/page-files.ts";
import { accept } from "./accept.ts";
import { answerConfig, CONFIG_PATH } from "./admin-config.ts";
import { clusterHealth, clusterStatus } from "./cluster-view.ts";
import type { RouterCore } from "./core.ts";
import { dashboard, history } from "./dashboard.ts";
import { openApiDocument } from "./openapi/openapi.ts";
import { serve } from "./router.ts";
import type { SharedTuning } from "./shared-tuning.ts";
import { type AdminExtras, readiness, status } from "./status.ts";

export interface AdminOptions {
  readonly core: RouterCore;
  readonly metrics: Metrics;
  readonly settings: { readonly nodeId: string; readonly listenAdmin: { readonly host: string } };
  /** `[auth].protect_metrics` */
  readonly protectMetrics: boolean;
  readonly extras: AdminExtras | undefined;
  readonly loader: ModelLoader | undefined;
  /** Who else is there, and where marks are kept. */
  readonly membership: Membership;
  /** Settings that all routers share. */
  readonly shared: SharedTuning;
  /** Whose certificates are asked for; undefined: it speaks clear text. */
  readonly tls: HttpTls | undefined;
  /** The router takes no new requests. */
  draining(): boolean;
}

const LOGS_PATH = "/v1/cgn/logs";
const CHAT_PATH = "/v1/cgn/chat";

const MARKS: Readonly<Record<string, NodeMark | undefined>> = {
  drain: "draining",
  cordon: "cordoned",
  uncordon: undefined,
};

/**
 * The admin port: metrics, health, status, decisions, and marks on nodes.
 *
 * Off loopback it serves `/healthz`, `/readyz` and `/metrics`, and the rest to keys with the scope `metrics` (views) or `admin`.
 */
export function createAdmin(options: AdminOptions): (req: IncomingMessage, res: ServerResponse) => Promise<void> {
  const local = isLoopbackHost(options.settings.listenAdmin.host);
  return async (req, res) => {
    const path = (req.url ?? "/").split("?")[0]!;
    if (path !== CHAT_PATH) req.resume();
    if (path === "/healthz") return sendJson(res, 200, { status: "ok" });
    if (path === "/readyz") return answerReady(options, hasCertificate(req, options.tls), res);
    if (path === "/openapi.json") return sendJson(res, 200, openApiDocument());
    requireCertificate(req, options.tls, path);
    if (path === "/metrics") {
      if (!local && options.protectMetrics) await requireKey(options, req, res, path, "metrics");
      return answerMetrics(options.metrics, res);
    }
    if (local) requireLocalHost(req, path);
    if (path === CHAT_PATH) return tryChat(options, local, req, res);
    const file = await pageFile(path);
    if (file !== undefined) {
      // The page itself says nothing of this router, and a browser cannot send a key for it.
      if (!local && !options.core.access.enabled) throw notServed(path);
      return sendPageFile(file, req, res);
    }
    const scope = scopeOf(req, path);
    // On loopback the operator's own commands need no key; what a page does, and what may hold secrets, does where there are keys.
    const asks = !local || (options.core.access.enabled && scope === "admin" && (isOwnPage(req) || path === LOGS_PATH));
    if (asks) await requireKey(options, req, res, path, scope);
    else if (options.core.access.enabled && showsKey(req))
      await requireKey(options, req, res, path, scope, scope === "admin");
    const query = new URLSearchParams((req.url ?? "").split("?")[1] ?? "");
    const more = options.extras?.posts?.[path];
    if (more !== undefined) {
      requireOperator(req, path, `POST ${path}`);
      return sendJson(res, 200, await more(query));
    }
    if (path === RELOAD_PATH || path === ROLE_PATH) {
      const message = `Cannot ${req.method} ${path}: this process keeps no engines and follows no file. Ask its agent's admin port`;
      throw new CgnError("ROUTE_NOT_FOUND", message, { path });
    }
    if (path === CONFIG_PATH) {
      if (req.method !== "GET" && req.method !== "HEAD") requireOperator(req, path, `POST ${path}`);
      return answerConfig(options.shared, query, req, res);
    }
    if (path.startsWith("/v1/cgn/models/")) return answerLoad(options, req, res, path);
    if (path.startsWith("/v1/cgn/nodes/")) return answerMark(options, req, res, path);
    if (req.method !== "GET" && req.method !== "HEAD") {
      throw new CgnError("METHOD_NOT_ALLOWED", `Cannot ${req.method} ${path}: it takes GET only`, { path });
    }
    sendJson(res, 200, await view(options, query, path));
  };
}

/** What an engine wrote may hold prompts, where its operator made it write them. */
function scopeOf(req: IncomingMessage, path: string): Scope {
  return (req.method === "GET" || req.method === "HEAD") && path !== LOGS_PATH ? "metrics" : "admin";
}

/**
 * The page's chat, answered as the front door would, with the key that came along: one server, so no page of another origin has to be let
 * in there.
 * @throws CgnError UNAUTHENTICATED, METHOD_NOT_ALLOWED, ROUTE_NOT_FOUND
 */
function tryChat({ core }: AdminOptions, local: boolean, req: IncomingMessage, res: ServerResponse): Promise<void> {
  try {
    if (!local && !core.access.enabled) throw notServed(CHAT_PATH);
    requireOperator(req, CHAT_PATH, `POST ${CHAT_PATH}`);
  } catch (e) {
    req.resume();
    throw e;
  }
  delete req.headers.origin;
  req.url = "/v1/chat/completions";
  return serve(core, accept(req, res, core.clock.now()));
}

/**
 * Off loopback a key is asked for; without `[auth]` there is none that would open.
 * @throws CgnError ROUTE_NOT_FOUND, UNAUTHENTICATED, FORBIDDEN
 */
/** Somebody who shows a key means it: a wrong one is told, also where none is asked for. */
const showsKey = ({ headers }: IncomingMessage): boolean =>
  headers.authorization !== undefined || headers["x-api-key"] !== undefined;

/** @param limits it must be of this scope, not only a key that is known */
async function requireKey(
  { core }: AdminOptions,
  req: IncomingMessage,
  res: ServerResponse,
  path: string,
  scope: Scope,
  limits = true,
): Promise<void> {
  if (!core.access.enabled) throw notServed(path);
  res.setHeader("www-authenticate", "Bearer");
  const subject = await core.access.identify(req.headers, req.rawHeaders);
  if (limits && !subject.scopes.has("admin")) requireScope(subject, scope, path);
  res.removeHeader("www-authenticate");
}

function notServed(path: string): CgnError {
  const should = "Set router.listen_admin to 127.0.0.1, or [auth].enabled with a key of scope admin";
  const message = `Cannot serve ${path} here: the admin port is not bound to loopback. ${should}`;
  return new CgnError("ROUTE_NOT_FOUND", message, { path });
}

/** A part of a path. @throws CgnError REQUEST_INVALID */
function decodePart(part: string, path: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    throw new CgnError("REQUEST_INVALID", `Cannot read the path ${path}: it is no path. Encode "%" as "%25"`, { path });
  }
}

async function answerMetrics(metrics: Metrics, res: ServerResponse): Promise<void> {
  const text = await metrics.text();
  res.writeHead(200, { "content-type": metrics.contentType, "content-length": Buffer.byteLength(text) });
  res.end(text);
}

/** Who shows no certificate where one is asked for learns whether, not what. */
function answerReady({ core, draining, membership }: AdminOptions, isProved: boolean, res: ServerResponse): void {
  const detail = readiness(core, draining());
  const all = { ...detail, cluster: clusterHealth(membership) };
  sendJson(res, detail.ready ? 200 : 503, isProved ? all : { ready: detail.ready });
}

/** @throws CgnError ROUTE_NOT_FOUND */
async function view(o: AdminOptions, query: URLSearchParams, path: string): Promise<object> {
  const { core } = o;
  if (path === "/v1/cgn/dashboard")
    return dashboard(core, o.settings.nodeId, o.draining(), o.extras, o.loader !== undefined);
  if (path === "/v1/cgn/history") return history(core, query);
  if (path === "/v1/cgn/prefixes") return core.prefixes.hottest(core.knowledge);
  if (path === LOGS_PATH) return logs(o.extras, query);
  if (path === "/v1/cgn/status") {
    return {
      ...status(core, o.settings.nodeId, o.draining(), o.extras),
      cluster: clusterStatus(o.membership, o.shared),
    };
  }
  if (path === "/v1/cgn/usage") return { usage: core.metrics.subjects.usage() };
  if (path === "/v1/cgn/decisions") {
    const asked = Number(query.get("limit") ?? 100);
    const limit = Number.isInteger(asked) && asked > 0 ? Math.min(asked, 2_000) : 100;
    return { decisions: core.decisions.latest(limit) };
  }
  if (path.startsWith("/v1/cgn/decisions/")) {
    const id = decodePart(path.slice("/v1/cgn/decisions/".length), path);
    const record = core.decisions.find(id);
    if (record !== undefined) return record;
    const message = `Cannot find decision "${id}": it is not among the last 2000 of this router. Use the answer's x-request-id`;
    throw new CgnError("ROUTE_NOT_FOUND", message, { id });
  }
  throw new CgnError("ROUTE_NOT_FOUND", `Cannot find ${path}: the admin port has no such path. See /v1/cgn/status`, {
    path,
  });
}

/** `ID/VERB` behind a prefix. */
function idAndVerb(path: string, prefix: string): { readonly id: string; readonly verb: string } {
  const rest = path.slice(prefix.length);
  const cut = rest.lastIndexOf("/");
  return { id: decodePart(rest.slice(0, Math.max(0, cut)), path), verb: rest.slice(cut + 1) };
}

/** @throws CgnError METHOD_NOT_ALLOWED, UNAUTHENTICATED */
function requireOperator(req: IncomingMessage, path: string, what: string): void {
  if (req.method !== "POST")
    throw new CgnError("METHOD_NOT_ALLOWED", `Cannot ${req.method} ${path}: it takes POST only`, { path });
  // No page in the operator's browser may post here but the dashboard, which came from here.
  if (req.headers.origin !== undefined && !isOwnPage(req)) {
    const message = `Cannot ${what}: the request comes from a web page. Use the command line, or the dashboard`;
    throw new CgnError("UNAUTHENTICATED", message, {});
  }
}

/** @throws CgnError ROUTE_NOT_FOUND */
async function logs(extras: AdminExtras | undefined, query: URLSearchParams): Promise<object> {
  const engine = query.get("engine") ?? "";
  const asked = Number(query.get("lines") ?? 20);
  const lines = await extras?.logs?.(engine, Number.isInteger(asked) && asked > 0 ? Math.min(asked, 500) : 20);
  if (lines !== undefined) return { engine, lines };
  const should = "Use cgn logs on the host of its agent";
  const message = `Cannot show what "${engine}" wrote: it is not kept by this process. ${should}`;
  throw new CgnError("ROUTE_NOT_FOUND", message, { engine });
}

/** `POST /v1/cgn/models/NAME/load` and `unload`; NAME may be an engine's id too. */
async function answerLoad(
  { core, loader }: AdminOptions,
  req: IncomingMessage,
  res: ServerResponse,
  path: string,
): Promise<void> {
  const { id, verb } = idAndVerb(path, "/v1/cgn/models/");
  if (id === "" || (verb !== "load" && verb !== "unload")) {
    const message = `Cannot find ${path}: there is no such verb. Use /v1/cgn/models/NAME/load or unload`;
    throw new CgnError("ROUTE_NOT_FOUND", message, { path });
  }
  requireOperator(req, path, `${verb} "${id}"`);
  const workers = (await loader?.[verb](id)) ?? [];
  if (workers.length > 0) return sendJson(res, 200, { name: id, workers });
  const known = core.fleet.workers().filter((w) => w.onDemand === true || w.state === "unloaded");
  const there = [...new Set(known.flatMap((w) => w.models))].map((name) => `"${name}"`).join(", ");
  const should = there === "" ? "No model is loaded on demand: set ttl, or [swap]" : `There is ${there}`;
  throw new CgnError("ROUTE_NOT_FOUND", `Cannot ${verb} "${id}": it is not loaded on demand. ${should}`, { id });
}

/** @throws CgnError ROUTE_NOT_FOUND, and what `Membership.mark()` throws */
async function answerMark(
  { core, membership }: AdminOptions,
  req: IncomingMessage,
  res: ServerResponse,
  path: string,
): Promise<void> {
  const { id, verb } = idAndVerb(path, "/v1/cgn/nodes/");
  if (id === "" || !Object.hasOwn(MARKS, verb)) {
    const message = `Cannot find ${path}: it is no mark. Use /v1/cgn/nodes/ID/drain, cordon or uncordon`;
    throw new CgnError("ROUTE_NOT_FOUND", message, { path });
  }
  requireOperator(req, path, `${verb} "${id}"`);
  const mark = MARKS[verb];
  const meant = core.fleet.meant(id);
  // A mark of a node that is away now can be taken back.
  if (meant.length === 0 && (mark !== undefined || !membership.marks().has(id))) {
    const known = [...new Set(core.fleet.workers().map((w) => w.node))];
    throw new CgnError(
      "ROUTE_NOT_FOUND",
      `Cannot ${verb} "${id}": there is no such node. There is ${known.join(", ")}`,
      { id },
    );
  }
  await membership.mark(id, mark);
  const inFlight = meant.reduce((sum, w) => sum + core.loads.of(w.id).inFlight, 0);
  sendJson(res, 200, { id, mark: mark ?? null, workers: meant.length, inFlight });
}
