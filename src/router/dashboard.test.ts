import { afterEach, describe, expect, it } from "vitest";
import { openAccess } from "../access/access.ts";
import { hashApiKey, newApiKey } from "../access/api-key.ts";
import { parseKeyLines } from "../access/key-lines.ts";
import { SILENT_LOG } from "../core/log.ts";
import type { AdminExtras } from "./status.ts";
import { type FakeEngine, startFakeEngine } from "./testing/fake-engine.ts";
import { realClock, startTestRouter, type TestRouter, testWorker } from "./testing/test-router.ts";

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

const KEYS = { user: newApiKey(), eyes: newApiKey(), ops: newApiKey() };
const LINES = `
${hashApiKey(KEYS.user)} name=user
${hashApiKey(KEYS.eyes)} name=eyes scopes=metrics
${hashApiKey(KEYS.ops)} name=ops scopes=admin`;

const EXTRAS: AdminExtras = {
  engines: () => ({ a: { kvOffload: "lmcache", spawned: true, starts: 1 } }),
  logs: async (engine, lines) => (engine === "a" ? ["one", "two", "three"].slice(-lines) : undefined),
  posts: { "/v1/cgn/reload": async () => ({ done: true }) },
};

interface Rig extends TestRouter {
  readonly engine: FakeEngine;
}

async function rig(keys: boolean, host = "127.0.0.1"): Promise<Rig> {
  const engine = await startFakeEngine();
  const access = await openAccess(
    {
      auth: { enabled: keys, keys: parseKeyLines(LINES).entries },
      rateLimit: { enabled: false, rps: 50, burst: 200 },
      cluster: "test",
    },
    { clock: realClock, log: SILENT_LOG },
  );
  const settings = { listenAdmin: { host, port: 0 } };
  const workers = [testWorker("a", engine.url), testWorker("b", engine.url, { state: "down", reason: "it ended" })];
  const test = await startTestRouter(workers, settings, undefined, undefined, { access, extras: EXTRAS });
  closers.push(
    engine.close,
    () => access.close(),
    () => test.router.close(),
  );
  return { ...test, engine, admin: `http://127.0.0.1:${test.router.adminAddress.port}` };
}

const bearer = (key: string) => ({ authorization: `Bearer ${key}` });
const CHAT = JSON.stringify({ model: "m", messages: [{ role: "user", content: "x".repeat(300) }] });

describe("the dashboard's files", () => {
  it("come with rules that let nothing else in, and only once", async () => {
    const { admin } = await rig(false);
    const page = await fetch(`${admin}/`);
    expect([page.status, page.headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
    const policy = page.headers.get("content-security-policy") ?? "";
    expect(policy).toContain("default-src 'none'");
    expect(policy).not.toContain("unsafe");
    const html = await page.text();
    expect(html).not.toMatch(/<script>|style=|\bon\w+=|https?:/);
    for (const [, path] of html.matchAll(/(?:href|src)="([^"]+)"/g)) {
      const file = await fetch(admin + path);
      expect(file.status, path).toBe(200);
      expect(await file.text(), path).not.toBe("");
    }
    const again = await fetch(`${admin}/`, { headers: { "if-none-match": page.headers.get("etag") ?? "" } });
    expect(again.status).toBe(304);
    expect((await fetch(`${admin}/page/none.js`)).status).toBe(404);
    expect((await fetch(`${admin}/page/..%2fpage-files.js`)).status).toBe(404);
  });

  it("are served off loopback where there are keys, without one; data is not", async () => {
    const { admin } = await rig(true, "0.0.0.0");
    expect((await fetch(`${admin}/`)).status).toBe(200);
    expect((await fetch(`${admin}/page/main.js`)).status).toBe(200);
    for (const path of ["dashboard", "history", "prefixes", "decisions", "logs?engine=a"]) {
      expect((await fetch(`${admin}/v1/cgn/${path}`)).status, path).toBe(401);
    }
    for (const path of ["dashboard", "history", "prefixes"]) {
      expect((await fetch(`${admin}/v1/cgn/${path}`, { headers: bearer(KEYS.eyes) })).status, path).toBe(200);
    }
    expect((await fetch(`${admin}/v1/cgn/dashboard`, { headers: bearer(KEYS.user) })).status).toBe(403);
    expect((await fetch(`${admin}/v1/cgn/logs?engine=a`, { headers: bearer(KEYS.eyes) })).status).toBe(403);
    expect((await fetch(`${admin}/v1/cgn/logs?engine=a`, { headers: bearer(KEYS.ops) })).status).toBe(200);
  });

  it("are not served off loopback without keys, and neither is anything of the page", async () => {
    const { admin } = await rig(false, "0.0.0.0");
    for (const path of ["/", "/page/main.js", "/v1/cgn/dashboard", "/v1/cgn/logs?engine=a"]) {
      expect((await fetch(admin + path)).status, path).toBe(404);
    }
    const chat = await fetch(`${admin}/v1/cgn/chat`, { method: "POST", body: CHAT });
    expect(chat.status).toBe(404);
  });
});

describe("actions of the page", () => {
  const post = (url: string, headers: Record<string, string> = {}) => fetch(url, { method: "POST", headers });

  it("are taken from the page itself and from no other", async () => {
    const { admin } = await rig(false);
    const url = `${admin}/v1/cgn/nodes/a/cordon`;
    expect((await post(url, { origin: admin })).status).toBe(200);
    for (const origin of ["http://evil.example", "null", admin.replace("127.0.0.1", "localhost"), `${admin}0`]) {
      expect((await post(url, { origin })).status, origin).toBe(401);
    }
    expect((await post(url, { origin: admin, "sec-fetch-site": "cross-site" })).status).toBe(401);
    expect((await post(`${admin}/v1/cgn/reload`, { origin: admin })).status).toBe(200);
    expect((await post(`${admin}/v1/cgn/reload`, { origin: "http://evil.example" })).status).toBe(401);
  });

  it("need a key of scope admin where there are keys, on loopback too; commands do not", async () => {
    const { admin } = await rig(true);
    const url = `${admin}/v1/cgn/nodes/a/cordon`;
    expect((await post(url, { origin: admin })).status).toBe(401);
    expect((await post(url, { origin: admin, ...bearer(KEYS.eyes) })).status).toBe(403);
    expect((await post(url, { origin: admin, ...bearer(KEYS.ops) })).status).toBe(200);
    expect((await post(url)).status).toBe(200);
    expect((await fetch(`${admin}/v1/cgn/logs?engine=a`)).status).toBe(401);
  });

  it("refuse a key that is shown and wrong, or of another scope, also where none is asked for", async () => {
    const { admin } = await rig(true);
    const url = `${admin}/v1/cgn/nodes/a/cordon`;
    expect((await post(url, bearer(newApiKey()))).status).toBe(401);
    expect((await post(url, bearer(KEYS.eyes))).status).toBe(403);
    expect((await post(url, bearer(KEYS.ops))).status).toBe(200);
    const view = (key: string) => fetch(`${admin}/v1/cgn/dashboard`, { headers: bearer(key) });
    expect((await view(newApiKey())).status).toBe(401);
    expect((await view(KEYS.eyes)).status).toBe(200);
  });
});

describe("/v1/cgn/dashboard", () => {
  it("has engines with what their keeper knows, and requests without their candidates", async () => {
    const { admin, url } = await rig(false);
    const answer = await fetch(`${url}/v1/chat/completions`, { method: "POST", body: CHAT });
    await answer.text();
    const data = (await (await fetch(`${admin}/v1/cgn/dashboard`)).json()) as {
      readonly requests: readonly { readonly id: string; readonly worker: string; readonly candidates?: unknown }[];
      readonly status: { readonly workers: readonly { readonly id: string; readonly cache: object }[] };
    };
    expect(data).toMatchObject({
      engines: { a: { kvOffload: "lmcache" } },
      notReady: { b: expect.stringContaining("it ended") },
      can: { load: false, logs: true, posts: ["/v1/cgn/reload"] },
    });
    expect(data.requests[0]).toMatchObject({
      id: answer.headers.get("x-request-id"),
      worker: "a",
      outcome: { result: "ok" },
    });
    expect(data.requests[0]!.candidates).toBeUndefined();
    expect(data.status.workers[0]!.cache).toMatchObject({ requests: 1, promptTokens: 20, reportedTokens: 16 });
    const history = (await (await fetch(`${admin}/v1/cgn/history?minutes=5`)).json()) as {
      readonly columns: Readonly<Record<string, readonly (number | null)[]>>;
    };
    expect(history.columns["hitReal"]!.filter((v) => v !== null)).toEqual([0.8]);
  });

  it("has the last lines of an engine, and says where others are", async () => {
    const { admin } = await rig(false);
    const lines = await fetch(`${admin}/v1/cgn/logs?engine=a&lines=2`);
    expect(await lines.json()).toEqual({ engine: "a", lines: ["two", "three"] });
    const none = await fetch(`${admin}/v1/cgn/logs?engine=b`);
    expect(none.status).toBe(404);
    expect(await none.text()).toContain("cgn logs");
  });
});

describe("/v1/cgn/chat", () => {
  const chat = (admin: string, headers: Record<string, string>) =>
    fetch(`${admin}/v1/cgn/chat`, { method: "POST", body: CHAT, headers });

  it("answers as the front door does, with the route", async () => {
    const { admin, engine } = await rig(false);
    const res = await chat(admin, { origin: admin });
    expect([res.status, res.headers.get("x-cgn-node")]).toEqual([200, "a"]);
    expect(await res.text()).toContain("Paris");
    expect(engine.seen[0]?.url).toBe("/v1/chat/completions");
    expect((await chat(admin, { origin: "http://evil.example" })).status).toBe(401);
    expect((await fetch(`${admin}/v1/cgn/chat`)).status).toBe(405);
  });

  it("asks for the caller's own key, as the front door does", async () => {
    const { admin, engine } = await rig(true, "0.0.0.0");
    expect((await chat(admin, { origin: admin })).status).toBe(401);
    expect((await chat(admin, { origin: admin, ...bearer(KEYS.eyes) })).status).toBe(403);
    expect((await chat(admin, { origin: admin, ...bearer(KEYS.user) })).status).toBe(200);
    expect(engine.seen.length).toBe(1);
  });
});
