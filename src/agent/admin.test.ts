import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import { openAccess } from "../access/access.ts";
import { hashApiKey } from "../access/api-key.ts";
import { SILENT_LOG } from "../core/log.ts";
import { RELOAD_PATH, type ReloadReport, ROLE_PATH } from "../core/reload-report.ts";
import { type HttpServer, startHttpServer } from "../http/server.ts";
import { CLOCK } from "../process/testing/harness.ts";
import { createMetrics } from "../telemetry/metrics.ts";
import { type AgentActions, adminHandler } from "./admin.ts";
import type { Agent } from "./agent.ts";
import { settingsFrom } from "./testing/settings.ts";

const dir = mkdtempSync(join(tmpdir(), "cgn-agent-admin-"));
afterAll(() => rmSync(dir, { recursive: true }));

const DONE: ReloadReport = { restarted: [], started: [], stopped: [], untouched: [], later: [] };
const agent = { status: () => [] } as unknown as Agent;
const servers: HttpServer[] = [];
afterEach(async () => {
  for (const each of servers.splice(0)) await each.close(0);
});

/** An agent's admin port whose callers come from `from`. */
async function port(
  from: string,
  more: AgentActions = {},
): Promise<(path: string, init?: RequestInit) => Promise<Response>> {
  const metrics = createMetrics({ processMetrics: false });
  const handle = adminHandler(agent, metrics, { reload: async () => DONE, changeRole: async () => DONE, ...more });
  const server = await startHttpServer({
    name: "agent admin",
    listen: { host: "127.0.0.1", port: 0 },
    handle(req, res) {
      Object.defineProperty(req.socket, "remoteAddress", { value: from, configurable: true });
      return handle(req, res);
    },
  });
  servers.push(server);
  return (path, init) => fetch(`http://127.0.0.1:${server.address.port}${path}`, init);
}

const POST = { method: "POST" };
const withKey = (key: string): RequestInit => ({ method: "POST", headers: { authorization: `Bearer ${key}` } });

describe("adminHandler()", () => {
  it("adminHandler() lets this host act without a key, but no web page", async () => {
    for (const from of ["127.0.0.1", "::1", "::ffff:127.0.0.1"]) {
      const ask = await port(from);
      expect((await ask(RELOAD_PATH, POST)).status).toBe(200);
      expect((await ask(`${ROLE_PATH}?node=n&role=both`, POST)).status).toBe(200);
      expect((await ask(RELOAD_PATH)).status).toBe(405);
      expect((await ask(RELOAD_PATH, { method: "POST", headers: { origin: "http://evil" } })).status).toBe(401);
    }
  });

  it("adminHandler() lets nobody from another host act where there are no keys, whatever Host says", async () => {
    const ask = await port("10.0.0.9");
    for (const path of [RELOAD_PATH, ROLE_PATH]) {
      const answer = await ask(path, POST);
      expect(answer.status).toBe(404);
      expect(await answer.text()).toMatch(/to other hosts.*\[auth\]/);
    }
    expect((await ask("/healthz")).status).toBe(200);
    expect((await ask("/metrics")).status).toBe(200);
  });

  it("adminHandler() asks other hosts for a key of scope admin where there are keys", async () => {
    const text = `[auth]\nenabled = true\n[[auth.keys]]\nhash = "${hashApiKey("boss")}"\nscopes = "admin"\n[[auth.keys]]\nhash = "${hashApiKey("user")}"\n`;
    const { auth, router, cluster } = settingsFrom(dir, text);
    const access = await openAccess(
      { auth, rateLimit: router.rateLimit, cluster: cluster.name },
      { clock: CLOCK, log: SILENT_LOG },
    );
    const ask = await port("10.0.0.9", { access });
    const open = await ask(RELOAD_PATH, POST);
    expect([open.status, open.headers.get("www-authenticate")]).toEqual([401, "Bearer"]);
    expect((await ask(RELOAD_PATH, withKey("wrong"))).status).toBe(401);
    expect((await ask(RELOAD_PATH, withKey("user"))).status).toBe(403);
    expect((await ask(RELOAD_PATH, withKey("boss"))).status).toBe(200);
    access.close();
  });
});
