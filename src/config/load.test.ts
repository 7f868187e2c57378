import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { GIB } from "../core/units.ts";
import type { HostFacts } from "./host.ts";
import { type LoadOptions, loadConfig, loadSettings } from "./load.ts";
import { formatProblem } from "./problems.ts";
import { SAMPLE_HOST } from "./sample-host.ts";
import type { Settings } from "./settings.ts";

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "cgn-load-"));
});
afterAll(() => rmSync(dir, { recursive: true }));

function options(toml: string, over: Partial<LoadOptions> = {}): LoadOptions {
  writeFileSync(join(dir, "c.toml"), toml);
  return { path: "c.toml", cwd: dir, env: {}, host: SAMPLE_HOST, ...over };
}

const load = (toml: string, over: Partial<LoadOptions> = {}): Settings => loadSettings(options(toml, over));
const problems = (toml: string, over: Partial<LoadOptions> = {}): string[] =>
  loadConfig(options(toml, over)).problems.map(formatProblem);

describe("loadSettings()", () => {
  it("loadSettings() gives the defaults of the reference system", () => {
    const { router, agent, kv, auth, metrics, cluster, engines } = load("[cluster]\n");
    expect([router.listenHttp, router.listenGrpc]).toEqual([
      { host: "0.0.0.0", port: 8080 },
      { host: "0.0.0.0", port: 9090 },
    ]);
    expect(router.scoreWeights).toEqual({ kv: 0.55, load: 0.25, power: 0.1, capacity: 0.1 });
    expect(router.disagg).toEqual({ splits: true, colocateBelowTokens: 256, prefillTimeoutMs: 120_000 });
    expect(agent).toMatchObject({ role: "both", readyTimeoutMs: 120_000, heartbeatMs: 5_000, nodeId: "node1" });
    expect(kv).toMatchObject({
      ramBytes: 32 * GIB,
      indexDir: "/var/lib/cognitora/index",
      uds: "/run/cognitora/kv.sock",
    });
    expect(auth).toEqual({ enabled: false, keys: [], protectMetrics: false });
    expect(cluster).toMatchObject({ name: "default", stateBackend: "memory" });
    expect([router.listenAdmin.host, metrics.listen.host]).toEqual(["127.0.0.1", "127.0.0.1"]);
    expect(engines).toEqual([]);
  });

  it("loadSettings() binds a limit only when it is written", () => {
    const unwritten = load("[router]\n[router.admission]\n[router.rate_limit]\nburst = 10\n").router;
    expect(unwritten.admission).toEqual({});
    expect(unwritten.rateLimit).toEqual({
      enabled: false,
      limitsAll: false,
      rps: 50,
      burst: 10,
      onRedisLoss: "local",
    });
    const written = load("[router.admission]\nttft_slo_ms = 800\nmax_queue = 1\n[router.rate_limit]\nrps = 5\n").router;
    expect(written.admission).toEqual({ ttftSloMs: 800, maxQueue: 1 });
    expect(written.rateLimit).toMatchObject({ enabled: true, limitsAll: true, rps: 5, burst: 200 });
    for (const key of ["rps_per_subject", "rpm_per_subject", "tpm_per_subject", "concurrent_per_subject"]) {
      const { rateLimit } = load(`[router.rate_limit]\n${key} = 7\n`).router;
      expect(rateLimit).toMatchObject({ enabled: true, limitsAll: false });
      const { rateLimit: all } = load(`[router.rate_limit]\n${key} = 7\nenabled = true\n`).router;
      expect(all).toMatchObject({ enabled: true, limitsAll: true, rps: 50 });
    }
    expect(load("[router.rate_limit]\nrps = 5\nenabled = false\n").router.rateLimit.enabled).toBe(false);
  });

  it("loadSettings() takes the user's folders where the system's cannot be written and no other was", () => {
    const host: HostFacts = { ...SAMPLE_HOST, canWrite: () => false };
    const { kv, agent } = load("[kv]\n", { host });
    expect([kv.uds, kv.indexDir]).toEqual(["/run/user/1000/cgn/kv.sock", "/home/user/.local/state/cgn/index"]);
    expect([agent.kvUds, agent.stateDir, agent.logDir]).toEqual([
      "/run/user/1000/cgn/kv.sock",
      "/home/user/.local/state/cgn",
      "/home/user/.local/state/cgn/logs",
    ]);
    expect(load('[kv]\nindex_dir = "/var/lib/cognitora/index"\n', { host }).kv.indexDir).toBe(
      "/var/lib/cognitora/index",
    );
  });

  it("loadSettings() lets agent and kvcached meet on one socket when only one names it", () => {
    expect(load('[kv]\nuds = "/tmp/a.sock"\n').agent.kvUds).toBe("/tmp/a.sock");
    expect(load('[agent]\nkv_uds = "/tmp/b.sock"\n').kv.uds).toBe("/tmp/b.sock");
  });

  it("loadSettings() caps the index by ram_gib, by index_gib without a warning, and by a quarter of a small host", () => {
    expect(load("[kv]\nindex_gib = 2\n").kv.ramBytes).toBe(2 * GIB);
    expect(load("[kv]\nindex_gib = 2\n").warnings).toEqual([]);
    expect(load("[kv]\nram_gib = 0.5\n").kv.ramBytes).toBe(GIB / 2);
    expect(load("[kv]\n", { host: { ...SAMPLE_HOST, memoryBytes: 16 * GIB } }).kv.ramBytes).toBe(4 * GIB);
    expect(problems("[kv]\nram_gib = 8\n")[0]).toContain("ram_gib caps the prefix index only");
    expect(problems("[kv]\nram_gib = 8\nindex_gib = 2\n")[0]).toContain("the same cap with different values");
  });

  it("loadSettings() lets flags win over the environment, and that over the file", () => {
    const toml = '[router]\npolicy = "random"\nnode_id = "file"\nlisten_http = ":1"\n';
    const env = { CGN__ROUTER__NODE_ID: "env", CGN__ROUTER__LISTEN_HTTP: "127.0.0.1:2" };
    const { router } = load(toml, { env, overrides: { "router.listen_http": "[::1]:3" } });
    expect([router.policy, router.nodeId, router.listenHttp]).toEqual(["random", "env", { host: "::1", port: 3 }]);
  });

  it("loadSettings() looks in the named file, then $CGN_CONFIG, then ./cgn.toml", () => {
    writeFileSync(join(dir, "a.toml"), '[cluster]\nname = "a"\n');
    writeFileSync(join(dir, "b.toml"), '[cluster]\nname = "b"\n');
    writeFileSync(join(dir, "cgn.toml"), '[cluster]\nname = "local"\n');
    const at = (path?: string, env: Record<string, string> = {}): (string | undefined)[] => {
      const settings = loadSettings({ cwd: dir, env, host: SAMPLE_HOST, ...(path === undefined ? {} : { path }) });
      return [settings.file, settings.cluster.name];
    };
    expect(at("a.toml", { CGN_CONFIG: "b.toml" })).toEqual(["a.toml", "a"]);
    expect(at(undefined, { CGN_CONFIG: join(dir, "b.toml") })).toEqual([join(dir, "b.toml"), "b"]);
    expect(at()).toEqual(["cgn.toml", "local"]);
  });

  it("loadSettings() reads the file of a secret", () => {
    writeFileSync(join(dir, "redis"), "redis://:pw@h:1\n");
    expect(load('[router.rate_limit]\nredis_url_file = "redis"\n').router.rateLimit.redisUrl).toBe("redis://:pw@h:1");
    expect(problems('[router.rate_limit]\nredis_url_file = "none"\n')[0]).toMatch(
      /^c\.toml:2:18: error: router\.rate_limit\.redis_url_file: "none" cannot be read: ENOENT/,
    );
  });

  it("loadSettings() chooses etcd when its endpoints are written", () => {
    expect(load('[cluster]\netcd = "http://a:1,http://b:2"\n').cluster).toMatchObject({
      stateBackend: "etcd",
      etcdEndpoints: ["http://a:1", "http://b:2"],
    });
  });

  it("loadSettings() refuses a flag for a key that there is not, and says which was meant", () => {
    const overrides = { "router.polici": "ttft", "models.m.tp": "x" };
    expect(problems("[router]\n", { overrides }).toSorted()).toEqual([
      '--set models.m.tp: error: models.m.tp: "x" is a text. Write a whole number',
      '--set router.polici: error: there is no key "router.polici". Did you mean "policy" for "polici"?',
    ]);
  });
});
