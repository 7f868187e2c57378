import { generateKeyPairSync } from "node:crypto";
import { createServer } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { exportJWK, SignJWT } from "jose";
import { afterEach, describe, expect, it } from "vitest";
import { type Access, type AccessSettings, openAccess } from "../access/access.ts";
import { hashApiKey, newApiKey } from "../access/api-key.ts";
import { parseKeyLines } from "../access/key-lines.ts";
import { SILENT_LOG } from "../core/log.ts";
import { type FakeEngine, startFakeEngine } from "./testing/fake-engine.ts";
import { realClock, startTestRouter, type TestRouter, testWorker } from "./testing/test-router.ts";

const closers: (() => unknown)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

const KEYS = { alice: newApiKey(), tight: newApiKey(), ops: newApiKey(), eyes: newApiKey(), old: newApiKey() };
const LINES = `
${hashApiKey(KEYS.alice)} name=alice models=m
${hashApiKey(KEYS.tight)} name=tight models=m,other rpm=2 tpm=1000 concurrent=1 max_prompt_tokens=50
${hashApiKey(KEYS.ops)} name=ops scopes=admin
${hashApiKey(KEYS.eyes)} name=eyes scopes=metrics
${hashApiKey(KEYS.old)} name=old expires=2020-01-01`;

interface Rig extends TestRouter {
  readonly engine: FakeEngine;
  readonly access: Access;
}

async function rig(
  over: Partial<AccessSettings["auth"]> = {},
  settings: Parameters<typeof startTestRouter>[1] = {},
  more: Parameters<typeof startTestRouter>[4] = {},
): Promise<Rig> {
  const engine = await startFakeEngine();
  const access = await openAccess(
    {
      auth: { enabled: true, keys: parseKeyLines(LINES).entries, ...over },
      rateLimit: { enabled: false, rps: 50, burst: 200 },
      cluster: "test",
    },
    { clock: realClock, log: SILENT_LOG },
  );
  const workers = [testWorker("a", engine.url), testWorker("b", engine.url, { models: ["other"] })];
  const test = await startTestRouter(workers, settings, undefined, undefined, { access, ...more });
  closers.push(
    engine.close,
    () => access.close(),
    () => test.router.close(),
  );
  return { ...test, engine, access };
}

const CHAT = { model: "m", messages: [{ role: "user", content: "What is the capital of France?" }] };

function chat(url: string, headers: Record<string, string>, body: object = CHAT): Promise<Response> {
  return fetch(`${url}/v1/chat/completions`, { method: "POST", body: JSON.stringify(body), headers });
}

const bearer = (key: string): Record<string, string> => ({ authorization: `Bearer ${key}` });

describe("the front door with [auth]", () => {
  it("asks for a key, and keeps it to itself", async () => {
    const { url, engine } = await rig();
    for (const headers of [
      bearer(KEYS.alice),
      { "x-api-key": KEYS.alice },
      { Authorization: `bearer  ${KEYS.alice}` },
    ]) {
      const res = await chat(url, headers);
      expect(res.status).toBe(200);
      await res.arrayBuffer();
    }
    expect(engine.seen).toHaveLength(3);
    expect(engine.seen.some(({ headers }) => "authorization" in headers || "x-api-key" in headers)).toBe(false);
  });

  it("engines that ask for a key get their own, and only for callers that were checked", async () => {
    const { url, engine } = await rig({}, {}, { engineKey: () => "of-the-engine" });
    await (await chat(url, bearer(KEYS.alice))).arrayBuffer();
    expect(engine.seen[0]?.headers.authorization).toBe("Bearer of-the-engine");
    const open = await rig({ enabled: false }, {}, { engineKey: () => "of-the-engine" });
    await (await chat(open.url, {})).arrayBuffer();
    expect(open.engine.seen[0]?.headers.authorization).toBeUndefined();
  });

  it.each([
    ["no key", {}],
    ["an unknown key", bearer(newApiKey())],
    ["an expired key", bearer(KEYS.old)],
    ["a key's hash", bearer(hashApiKey(KEYS.alice))],
    ["Basic", { authorization: `Basic ${btoa(`x:${KEYS.alice}`)}` }],
    ["an empty x-api-key", { "x-api-key": "" }],
    ["a wrong Authorization before a right x-api-key", { ...bearer("x"), "x-api-key": KEYS.alice }],
    ["a token where no issuer is written", bearer("eyJhbGciOiJub25lIn0.e30.")],
    ["a huge key", bearer("k".repeat(30_000))],
  ])("refuses %s with 401, and does not ask the engine", async (_what, headers) => {
    const { url, engine } = await rig();
    const res = await chat(url, headers as Record<string, string>);
    expect(res.status).toBe(401);
    expect(res.headers.get("www-authenticate")).toBe("Bearer");
    expect((await res.json()).error).toMatchObject({ type: "authentication_error", code: "unauthenticated" });
    expect(engine.seen).toEqual([]);
  });

  it("also asks for one before /v1/models, and lists what the key may ask", async () => {
    const { url } = await rig();
    expect((await fetch(`${url}/v1/models`)).status).toBe(401);
    const names = async (key: string): Promise<string[]> => {
      const list = await (await fetch(`${url}/v1/models`, { headers: bearer(key) })).json();
      return list.data.map((m: { id: string }) => m.id);
    };
    expect(await names(KEYS.alice)).toEqual(["m"]);
    expect((await names(KEYS.tight)).sort()).toEqual(["m", "other"]);
  });

  it("answers 403 for a scope or a model that the key lacks, also for models that there are not", async () => {
    const { url, engine } = await rig();
    const ops = await chat(url, bearer(KEYS.ops));
    expect([ops.status, (await ops.json()).error.type]).toEqual([403, "permission_error"]);
    for (const model of ["other", "none"])
      expect((await chat(url, bearer(KEYS.alice), { ...CHAT, model })).status).toBe(403);
    expect(engine.seen).toEqual([]);
  });

  it("holds a key to its requests a minute, with Retry-After, and frees its place", async () => {
    const { url, access, router } = await rig();
    const first = await chat(url, bearer(KEYS.tight));
    expect(first.headers.get("x-ratelimit-remaining-requests")).toBe("1");
    await first.arrayBuffer();
    await (await chat(url, bearer(KEYS.tight))).arrayBuffer();
    const third = await chat(url, bearer(KEYS.tight));
    expect(third.status).toBe(429);
    expect(Number(third.headers.get("retry-after"))).toBeGreaterThan(0);
    expect((await third.json()).error).toMatchObject({ type: "rate_limit_error", code: "rate_limited" });
    expect(access.limitStore()).toMatchObject({ store: "memory", running: 0 });
    const usage = router.core.metrics.subjects.usage();
    expect(usage.find(({ subject }) => subject === "tight")).toMatchObject({
      requests: 3,
      failed: 1,
      promptTokens: 40,
      cachedTokens: 32,
      completionTokens: 14,
    });
  });

  it("holds a key to its requests in flight, and gives the place back when the client leaves", async () => {
    const { url, engine, access } = await rig();
    engine.behaviour = "hang";
    const leave = new AbortController();
    const hung = fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      body: JSON.stringify(CHAT),
      headers: bearer(KEYS.tight),
      signal: leave.signal,
    }).catch(() => {});
    await until(() => engine.seen.length === 1);
    const second = await chat(url, bearer(KEYS.tight));
    expect(second.status).toBe(429);
    expect((await second.json()).error.message).toContain("1 requests at a time");
    leave.abort();
    await hung;
    await until(() => "running" in access.limitStore() && (access.limitStore() as never as Running).running === 0);
  });

  it("refuses prompts beyond the key's or the model's limit with 400", async () => {
    const { url, engine } = await rig({}, {}, { maxPromptTokens: new Map([["m", 200]]) });
    const long = (words: number): object => ({ ...CHAT, messages: [{ role: "user", content: "word ".repeat(words) }] });
    const ofKey = await chat(url, bearer(KEYS.tight), long(100));
    expect([ofKey.status, (await ofKey.json()).error.message]).toEqual([
      400,
      expect.stringContaining('key of "tight"'),
    ]);
    const ofModel = await chat(url, bearer(KEYS.alice), long(400));
    const { error } = await ofModel.json();
    expect(error).toMatchObject({ code: "prompt_too_long", param: "messages" });
    expect(error.message).toContain("max_prompt_tokens allows 200");
    expect(engine.seen).toEqual([]);
  });

  it("two Authorization headers are refused: a proxy in front may have checked the other", async () => {
    const { url } = await rig();
    const res = await raw(url, [`Authorization: Bearer ${KEYS.alice}`, "Authorization: Bearer other"]);
    expect(res).toMatch(/^HTTP\/1\.1 401/);
  });

  it("10,000 keys that are not known fill no memory of metrics and usage", async () => {
    const { url, router } = await rig();
    for (let i = 0; i < 50; i++) {
      const batch = Array.from({ length: 20 }, () => chat(url, bearer(newApiKey())).then((res) => res.arrayBuffer()));
      await Promise.all(batch);
    }
    expect(router.core.metrics.subjects.usage().map(({ subject }) => subject)).toEqual(["anonymous"]);
  });
});

describe("tokens of an issuer at the front door", () => {
  /** An issuer over HTTP; while it holds, its answers wait in `held`. */
  async function startIssuer() {
    const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const jwk = { ...(await exportJWK(publicKey)), kid: "k", alg: "ES256" };
    const issuer = { url: "", holds: false, held: [] as (() => void)[], sign: (claims: object) => sign(claims) };
    const server = createServer((req, res) => {
      const answer = (): void => {
        if (req.url === "/keys") res.end(JSON.stringify({ keys: [jwk] }));
        else res.end(JSON.stringify({ issuer: issuer.url, jwks_uri: `${issuer.url}/keys` }));
      };
      if (issuer.holds) issuer.held.push(answer);
      else answer();
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    issuer.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    closers.push(() => {
      server.closeAllConnections();
      server.close();
    });
    const sign = (claims: object): Promise<string> =>
      new SignJWT({ iss: issuer.url, aud: "cgn", sub: "tom", exp: Math.floor(Date.now() / 1000) + 60, ...claims })
        .setProtectedHeader({ alg: "ES256", kid: "k" })
        .sign(privateKey);
    return issuer;
  }

  const oidc = (issuer: string): NonNullable<AccessSettings["auth"]["oidc"]> => ({
    issuer,
    audience: "cgn",
    jwksTtlMs: 600_000,
    algorithms: ["ES256"],
    leewayMs: 30_000,
    subjectClaim: "sub",
    scopesClaim: "scope",
    modelsClaim: "models",
  });

  it("open it beside keys, with the models of their claim", async () => {
    const issuer = await startIssuer();
    const { url, engine, router } = await rig({ oidc: oidc(issuer.url) });
    const token = await issuer.sign({ models: ["m"] });
    for (let i = 0; i < 2; i++) expect((await chat(url, bearer(token))).status).toBe(200);
    expect((await chat(url, bearer(token), { ...CHAT, model: "other" })).status).toBe(403);
    expect((await chat(url, bearer(await issuer.sign({ exp: 1 })))).status).toBe(401);
    expect((await chat(url, bearer(await issuer.sign({ aud: "else" })))).status).toBe(401);
    expect((await chat(url, bearer(KEYS.alice))).status).toBe(200);
    expect(engine.seen).toHaveLength(3);
    expect(engine.seen[0]?.headers.authorization).toBeUndefined();
    expect(router.core.metrics.subjects.usage()[0]).toMatchObject({ subject: "tom", keyId: "oidc:tom", requests: 3 });
  });

  it("a client that leaves while its token is checked leaves nothing behind", async () => {
    const issuer = await startIssuer();
    issuer.holds = true;
    const { url, engine, router } = await rig({ oidc: oidc(issuer.url) });
    const token = await issuer.sign({});
    const { hostname, port } = new URL(url);
    const head = [
      "POST /v1/chat/completions HTTP/1.1",
      "Host: x",
      `Authorization: Bearer ${token}`,
      "Content-Length: 9",
    ];
    // The server says "go on" in the moment in which it takes the request.
    await new Promise<void>((resolve) => {
      const socket = connect(Number(port), hostname, () => {
        socket.write(`${[...head, "Expect: 100-continue"].join("\r\n")}\r\n\r\n`);
      });
      socket.once("data", () => socket.destroy());
      socket.once("close", () => resolve());
    });
    await until(() => issuer.held.length > 0);
    issuer.holds = false;
    for (const answer of issuer.held) answer();
    // It must end then, and not wait for a body that never comes.
    await until(() => router.core.metrics.subjects.usage().length === 1);
    expect(engine.seen).toEqual([]);
  });
});

interface Running {
  readonly running: number;
}

async function until(condition: () => boolean): Promise<void> {
  for (let i = 0; i < 1_000 && !condition(); i++) await new Promise((resolve) => setTimeout(resolve, 10));
  expect(condition()).toBe(true);
}

/** A chat request with header lines as they are, over a bare socket. */
async function raw(url: string, lines: readonly string[]): Promise<string> {
  const { hostname, port } = new URL(url);
  const body = JSON.stringify(CHAT);
  return new Promise((resolve, reject) => {
    let said = "";
    const socket = connect(Number(port), hostname, () => {
      const head = ["POST /v1/chat/completions HTTP/1.1", `Host: ${hostname}`, ...lines, "Connection: close"];
      socket.write(`${[...head, `Content-Length: ${body.length}`].join("\r\n")}\r\n\r\n${body}`);
    });
    socket.on("data", (chunk) => (said += chunk.toString()));
    socket.on("close", () => resolve(said));
    socket.on("error", reject);
  });
}

describe("the admin port off loopback", () => {
  const open = { listenAdmin: { host: "0.0.0.0", port: 0 } };
  const local = (admin: string): string => admin.replace("0.0.0.0", "127.0.0.1");

  it("serves health and metrics to all, and nothing else without keys", async () => {
    const { admin } = await rig({ enabled: false }, open);
    for (const path of ["/healthz", "/readyz", "/metrics"]) expect((await fetch(local(admin) + path)).status).toBe(200);
    for (const path of ["/v1/cgn/status", "/v1/cgn/usage", "/v1/cgn/decisions", "/"])
      expect((await fetch(local(admin) + path, { headers: bearer(KEYS.ops) })).status).toBe(404);
    expect((await fetch(`${local(admin)}/v1/cgn/nodes/a/drain`, { method: "POST" })).status).toBe(404);
  });

  it("serves views to the scope metrics, and changes to admin only", async () => {
    const { admin } = await rig({}, open);
    const get = (path: string, key?: string): Promise<number> =>
      fetch(local(admin) + path, { headers: key === undefined ? {} : bearer(key) }).then((res) => res.status);
    const post = (key: string): Promise<number> =>
      fetch(`${local(admin)}/v1/cgn/nodes/a/cordon`, { method: "POST", headers: bearer(key) }).then((r) => r.status);
    expect(await get("/v1/cgn/status")).toBe(401);
    expect(await get("/v1/cgn/status", KEYS.alice)).toBe(403);
    expect(await get("/v1/cgn/status", KEYS.eyes)).toBe(200);
    expect(await get("/v1/cgn/usage", KEYS.ops)).toBe(200);
    expect(await post(KEYS.alice)).toBe(403);
    expect(await post(KEYS.eyes)).toBe(403);
    expect(await post(KEYS.ops)).toBe(200);
  });

  it("asks for a key on /metrics too where protect_metrics says so", async () => {
    const { admin } = await rig({}, open, { protectMetrics: true });
    const get = (key?: string): Promise<number> =>
      fetch(`${local(admin)}/metrics`, { headers: key === undefined ? {} : bearer(key) }).then((res) => res.status);
    expect([await get(), await get(KEYS.alice), await get(KEYS.eyes)]).toEqual([401, 403, 200]);
    expect((await fetch(`${local(admin)}/healthz`)).status).toBe(200);
  });
});

describe("[router.cors]", () => {
  const cors = { origins: ["https://app.example.com"], headers: ["x-mine"], maxAgeMs: 60_000 };
  const page = (url: string, origin: string, method = "OPTIONS"): Promise<Response> =>
    fetch(`${url}/v1/chat/completions`, {
      method,
      headers: {
        origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization, x-stainless-os, x-evil",
        ...(method === "POST" ? bearer(KEYS.alice) : {}),
      },
      ...(method === "POST" ? { body: JSON.stringify(CHAT) } : {}),
    });

  it("answers a page of the list before its request, without a key, and lets it read the answer", async () => {
    const { url } = await rig({}, { cors });
    const before = await page(url, "https://app.example.com");
    expect(before.status).toBe(204);
    expect(Object.fromEntries(before.headers)).toMatchObject({
      "access-control-allow-origin": "https://app.example.com",
      "access-control-max-age": "60",
      vary: "Origin",
    });
    const allowed = before.headers.get("access-control-allow-headers")?.split(", ");
    expect(allowed).toEqual(expect.arrayContaining(["authorization", "x-mine", "x-stainless-os"]));
    expect(allowed).not.toContain("x-evil");
    const res = await page(url, "https://app.example.com", "POST");
    expect(res.status).toBe(200);
    expect(res.headers.get("access-control-allow-origin")).toBe("https://app.example.com");
    const refused = await fetch(`${url}/v1/models`, { headers: { origin: "https://app.example.com" } });
    expect([refused.status, refused.headers.get("access-control-allow-origin")]).toEqual([
      401,
      "https://app.example.com",
    ]);
  });

  it.each(["https://evil.example.com", "https://app.example.com.evil.com", "null", "http://app.example.com"])(
    "tells %s nothing",
    async (origin) => {
      const { url } = await rig({}, { cors });
      const before = await page(url, origin);
      expect([...before.headers.keys()].filter((name) => name.startsWith("access-control-"))).toEqual([]);
      expect((await page(url, origin, "POST")).headers.get("access-control-allow-origin")).toBeNull();
    },
  );

  it("without it no page may call, whatever the engine says", async () => {
    // vLLM allows every origin by default, and its header went through to the page.
    const { url } = await rig();
    expect((await page(url, "https://app.example.com")).status).toBe(405);
    const res = await page(url, "https://app.example.com", "POST");
    expect(res.headers.get("access-control-allow-origin")).toBeNull();
  });
});
