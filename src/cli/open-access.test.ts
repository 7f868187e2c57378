import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { hashApiKey } from "../access/api-key.ts";
import { loadSettings } from "../config/load.ts";
import type { Settings } from "../config/settings.ts";
import { SILENT_LOG } from "../core/log.ts";
import { createMetrics } from "../telemetry/metrics.ts";
import { openAccessOf } from "./open-access.ts";
import { openTracer } from "./open-tracer.ts";
import { systemClock } from "./system-clock.ts";

const dir = mkdtempSync(join(tmpdir(), "cgn-access-"));
afterAll(() => rmSync(dir, { recursive: true }));
const deps = { clock: systemClock(), log: SILENT_LOG, metrics: createMetrics({ processMetrics: false }) };

function load(text: string, env: Record<string, string> = {}): Settings {
  const path = join(dir, "c.toml");
  writeFileSync(path, text);
  return loadSettings({ path, env, cwd: dir });
}

describe("openAccessOf()", () => {
  it("makes what the configuration says: keys of both places, limits of the old section, prompts by model", async () => {
    writeFileSync(join(dir, "keys"), `${hashApiKey("one")} name=one\n`);
    const settings = load(`
[auth]
enabled = true
api_keys_file = "${join(dir, "keys")}"
engine_key = "e"
[[auth.keys]]
hash = "${hashApiKey("two")}"
name = "two"
scopes = "admin,inference"
rpm = 1
[router.rate_limit]
rps = 5
burst = 7
[models."m"]
max_prompt_tokens = 9
`);
    const parts = await openAccessOf(settings, deps);
    const { access } = parts;
    const who = (key: string) => access.identify({ "x-api-key": key }, []);
    expect(await who("one")).toMatchObject({ name: "one", authenticated: true });
    const two = await who("two");
    expect(two).toMatchObject({ name: "two", scopes: new Set(["admin", "inference"]), limits: { rpm: 1 } });
    expect(() => who("three")).toThrow(/no such key/);
    expect((await access.admit(await who("one"))).headers["x-ratelimit-limit-requests"]).toBe("7");
    await access.admit(two);
    expect(() => access.admit(two)).toThrow(/1 requests a minute/);
    expect(parts.maxPromptTokens).toEqual(new Map([["m", 9]]));
    expect(parts.engineKey()).toBe("e");
    expect(access.status()).toMatchObject({ auth: true, keys: 2, rateLimit: { enabled: true, store: "memory" } });
    access.close();
  });

  it("without [auth] lets everybody in, and leaves their keys alone", async () => {
    const { access } = await openAccessOf(load("[router]\n"), deps);
    expect(access.identify({ authorization: "Bearer x" }, [])).toMatchObject({
      name: "anonymous",
      authenticated: false,
    });
    access.close();
  });

  it.each([
    [`[auth]\nenabled = true\n[[auth.keys]]\nhash = "cgn-${"0".repeat(32)}"\n`, /auth\.keys\[0\]\.hash: is no hash/],
    [`[auth]\nenabled = true\n[[auth.keys]]\nhash = "${"0".repeat(64)}"\nscopes = "root"\n`, /"root" is no scope/],
    ['[auth]\nenabled = true\noidc_issuer = "login"\n', /auth\.oidc_issuer: "login" is no URL/],
    ['[auth]\nenabled = true\noidc_issuer = "https://x"\noidc_algorithms = ["HS256"]\n', /oidc_algorithms/],
    ['[auth]\nenabled = true\noidc_issuer = "https://x"\noidc_algorithms = ["none"]\n', /oidc_algorithms/],
  ])("the configuration is refused: %s", (text, said) => {
    expect(() => load(text)).toThrow();
    try {
      load(text);
    } catch (e) {
      const { problems } = (e as { details: { problems: { path: string; problem: string }[] } }).details;
      expect(problems.map((p) => `${p.path}: ${p.problem}`).join("\n")).toMatch(said);
    }
  });

  it("warns of an issuer without an audience, and of keys in clear text", () => {
    const { warnings } = load('[auth]\nenabled = true\noidc_issuer = "http://login.example.com"\n');
    expect(warnings.map(({ problem }) => problem).join("\n")).toMatch(
      /no audience is written[\s\S]*clear text|clear text[\s\S]*no audience/,
    );
  });
});

describe("openTracer()", () => {
  it("makes none without a collector, and takes the variable that all OpenTelemetry programs read", async () => {
    expect(openTracer(load("[router]\n"), deps)).toBeUndefined();
    const tracer = openTracer(load("[router]\n", { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9" }), deps);
    expect(tracer?.status()).toMatchObject({ endpoint: "http://127.0.0.1:9/v1/traces", sampleRatio: 1 });
    await tracer?.close();
  });

  it("refuses what is no URL and what are no headers", () => {
    expect(() => openTracer(load('[tracing]\notlp_endpoint = "otel:4317"\n'), deps)).toThrow(/is no URL/);
    const headers = '[tracing]\notlp_endpoint = "http://x"\nheaders = "a"\n';
    expect(() => openTracer(load(headers), deps)).toThrow(/name=value/);
  });
});
