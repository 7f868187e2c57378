import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { isCgnError } from "../core/errors.ts";
import { loadConfig, loadSettings } from "./load.ts";
import { planEngine } from "./plan.ts";
import { formatProblem } from "./problems.ts";
import { SAMPLE_HOST } from "./sample-host.ts";

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "cgn-config-"));
});
afterAll(() => rmSync(dir, { recursive: true }));

function problemsOf(text: string): string[] {
  writeFileSync(join(dir, "c.toml"), text);
  return loadConfig({ path: "c.toml", cwd: dir, env: {}, host: SAMPLE_HOST }).problems.map(formatProblem);
}

function failure(run: () => unknown) {
  try {
    run();
  } catch (e) {
    if (isCgnError(e)) return e;
    throw e;
  }
  throw new Error("did not fail");
}

const loadFile = (path: string, env: Record<string, string> = {}) =>
  loadSettings({ path, cwd: dir, env, host: SAMPLE_HOST });

const MODEL = '[models."Qwen/Qwen3-8B"]\n';

/** What people see: one row a mistake, the whole text. */
const GOLDEN: readonly (readonly [what: string, toml: string, said: readonly string[]])[] = [
  [
    "a wrong type",
    '[router]\nworker_threads = "four"\nlisten_http = 8080\n[router.admission]\nttft_slo = 800\nmax_queue = "12"\n',
    [
      'c.toml:2:18: error: router.worker_threads: "four" is a text. Write a whole number',
      'c.toml:3:15: error: router.listen_http: 8080 is only a number. Write "HOST:PORT" in quotes, for example "127.0.0.1:8080"',
      'c.toml:5:12: error: router.admission.ttft_slo: 800 has no unit. Write a duration in quotes, for example "800ms", or milliseconds as ttft_slo_ms = 800',
      'c.toml:6:13: error: router.admission.max_queue: "12" is a text. Write the number without quotes: 12',
    ],
  ],
  [
    "negative numbers",
    "[router]\nworker_threads = -1\n[router.admission]\nttft_slo_ms = -5\n[kv]\nindex_gib = -2\n",
    [
      "c.toml:2:18: error: router.worker_threads: -1 is negative. Write at least 0",
      "c.toml:4:15: error: router.admission.ttft_slo_ms: -5 is negative. Write milliseconds as a whole number, for example 800",
      "c.toml:6:13: error: kv.index_gib: -2 is negative. Write a number above 0",
    ],
  ],
  [
    "what is no host",
    '[cluster]\nadvertise_host = "http://gpu1:7070"\n[agent]\npeer_address = "gpu1:7070"\n',
    [
      'c.toml:2:18: error: cluster.advertise_host: "http://gpu1:7070" is no name or address of a host. Write it without a scheme and a port, for example "10.0.0.5" or "gpu1.lan"',
      'c.toml:4:16: error: agent.peer_address: "gpu1:7070" is no name or address of a host. Write it without a scheme and a port, for example "10.0.0.5" or "gpu1.lan"',
    ],
  ],
  [
    "what is no URL, without a word of a secret one",
    '[cluster]\netcd_endpoints = ["e1:2379", "bad host:1"]\n[metrics]\nredfish_url = "10.0.0.9"\n[tracing]\notlp_endpoint = "collector:4318"\n[router.rate_limit]\nredis_url = "http://:geheim@h"\n[agent]\nready_probe_url = "http://bad host"\n',
    [
      'c.toml:2:18: error: cluster.etcd_endpoints: "bad host:1" is no address of an etcd member. Write for example "https://etcd-1:2379"',
      'c.toml:4:15: error: metrics.redfish_url: "10.0.0.9" is no URL. Write https://HOST:PORT',
      'c.toml:6:17: error: tracing.otlp_endpoint: "collector:4318" is no URL. Write http://HOST:PORT',
      "c.toml:8:13: error: router.rate_limit.redis_url: it is no URL with redis:// or rediss://. Write redis://HOST:PORT",
      'c.toml:10:19: error: agent.ready_probe_url: "http://bad host" is no URL. Write http://HOST:PORT',
    ],
  ],
  [
    "a fraction where a whole number stands",
    `[models."m"]\ntp = 1.5\n`,
    ["c.toml:2:6: error: models.m.tp: 1.5 is a number with a fraction. Write a whole number"],
  ],
  [
    "unknown keys",
    `[rooter]\n[router]\nlisen_http = "a:1"\n[router.admission]\nbanana = 1\n${MODEL}tpp = 1\n`,
    [
      "c.toml:1:2: warning: rooter: no such section; it is ignored. Did you mean router?",
      "c.toml:3:1: warning: router.lisen_http: no such key; it is ignored. Did you mean listen_http?",
      "c.toml:5:1: warning: router.admission.banana: no such key; it is ignored. Known here: max_queue, ttft_slo, ttft_slo_ms, max_concurrent_per_replica, queue_timeout, queue_timeout_ms",
      'c.toml:7:1: warning: models."Qwen/Qwen3-8B".tpp: no such key; it is ignored. Did you mean tp?',
    ],
  ],
  [
    "an unknown engine kind",
    '[engine]\nkind = "vlm"\nkv_offload = "HiCache"\n',
    [
      'c.toml:2:8: error: engine.kind: "vlm" is not known here. Use one of "vllm", "sglang", "llama_cpp", "mlx", "openai_compat"; did you mean "vllm"?',
      'c.toml:3:14: error: engine.kv_offload: "HiCache" is not known here. Use one of "none", "nixl", "lmcache", "hicache", "kvbm"; did you mean "hicache"?',
    ],
  ],
  [
    "a bad URL",
    `[[engines]]\nurl = "127.0.0.1:8000"\n[[engines]]\nurl = "http://h:8001/api/v2"\n[[engines]]\nurl = "http://me:pw@h:8002"\n[[engines]]\nkind = "openai_compat"\n${MODEL}`,
    [
      'c.toml:2:7: error: engines[0].url: "127.0.0.1:8000" is no URL. Write the base URL, for example "http://127.0.0.1:8000"',
      'c.toml:4:7: error: engines[1].url: "http://h:8001/api/v2" has more than a host and a port. Write the base URL: "http://h:8001"',
      'c.toml:6:7: error: engines[2].url: "http://***@h:8002" holds a name or password, which would be printed. Remove what stands before @',
      'c.toml:7:3: error: engines[3].url: is missing: engine kind "openai_compat" is found by its URL. Write its base URL, for example "http://10.0.0.5:8000"',
    ],
  ],
  [
    "ports that contradict each other",
    `[engine]\nkind = "sglang"\nurl = "http://127.0.0.1:8000"\n[engine.sglang]\nport = 8001\nextra_args = ["--port=8002"]\n${MODEL}`,
    [
      "c.toml:5:8: error: engine.sglang.port: port 8001 contradicts port 8000 of engine.url (line 3). Write one port, in engine.url or in the section, and remove the other",
      "c.toml:6:14: error: engine.sglang.extra_args: --port 8002 contradicts port 8000 of engine.url (line 3). Write one port, in engine.url or in the section, and remove the other",
    ],
  ],
  [
    "two engines on one port, and an engine on a listener's",
    `[router]\nlisten_http = "0.0.0.0:8000"\n[[engines]]\nport = 8000\n[[engines]]\nport = 8001\n[[engines]]\nurl = "http://127.0.0.1:8001"\n${MODEL}`,
    [
      "c.toml:4:8: error: engines[0].port: 127.0.0.1:8000 is also where router.listen_http (line 2) listens. Write another port here, or another router.listen_http",
      "c.toml:8:7: error: engines[2].url: port 8001 is already the port of engines[1] (line 5). Give each engine its own port: write another url or port here",
    ],
  ],
  [
    "an engine without a model",
    '[engine]\nkind = "vllm"\n',
    [
      'c.toml:1:2: error: engine.model: the engine has no model to load. Add a [models."NAME"] table with path or hf_repo, or set spawn = false to adopt a running engine',
    ],
  ],
  [
    "a model that is not there",
    `[[engines]]\nmodel = "Qwen/Qwen3-8b"\n${MODEL}[models.b]\n`,
    [
      'c.toml:2:9: error: engines[0].model: there is no [models."Qwen/Qwen3-8b"]. Did you mean "Qwen/Qwen3-8B"? Otherwise add that table',
    ],
  ],
  [
    "tables where lists stand, and the other way round",
    'engine = "vllm"\nrouter = 3\n[engines]\nkind = "vllm"\n',
    [
      "c.toml:1:10: error: engine: is no table. Write [engine] for one engine, or [[engines]] for each of several",
      "c.toml:2:10: error: router: 3 is a whole number. Write a table",
      "c.toml:3:2: error: engines: is not a list. Write [[engines]], with two brackets, for each engine",
    ],
  ],
  [
    "a command that needs a shell",
    `[agent]\nvllm_cmd = "vllm serve {model} | tee log"\n${MODEL}`,
    [
      "c.toml:2:12: error: agent.vllm_cmd: needs a shell, and cgn starts engines without one. Write the words of one command as a list, and set variables in the agent's environment",
    ],
  ],
  [
    "TLS and keys by halves",
    '[security]\ncert_file = "a.pem"\nrequire_mtls = true\n[auth]\nenabled = true\n',
    [
      "c.toml:2:13: error: security.cert_file: is written without key_file. Write [security].key_file too, or remove both",
      "c.toml:3:16: error: security.require_mtls: no CA is named that client certificates could be checked against. Write [security].client_ca_file",
      "c.toml:5:11: error: auth.enabled: no key and no token could be accepted: neither api_keys_file nor oidc_issuer is written. Write [auth].api_keys_file (a file with one SHA-256 of a key a line) or [auth].oidc_issuer",
    ],
  ],
  [
    "mTLS without a certificate to serve with",
    '[security]\nca_file = "ca.pem"\nrequire_mtls = true\n',
    [
      "c.toml:3:16: error: security.require_mtls: clients are only asked for certificates over TLS, and there is no certificate to serve with. Write [security].cert_file and key_file too, or remove it",
    ],
  ],
  [
    "a CA for clients without a certificate to serve with",
    '[security]\nclient_ca_file = "ca.pem"\n',
    [
      "c.toml:2:18: error: security.client_ca_file: clients are only asked for certificates over TLS, and there is no certificate to serve with. Write [security].cert_file and key_file too, or remove it",
    ],
  ],
  [
    "an empty file",
    "",
    ["c.toml: warning: the file sets nothing, so every value is the default. Start from one in recipes/"],
  ],
  [
    "a key written under both names",
    '[cluster]\netcd = ["a"]\netcd_endpoints = ["b"]\n',
    [
      "c.toml:3:1: error: cluster.etcd_endpoints: etcd_endpoints and etcd are the same key, and both are written. Remove one of them",
    ],
  ],
];

describe("messages of loadConfig()", () => {
  // What this version does not do yet is no matter of these files.
  it.each(GOLDEN)("loadConfig() tells %s", (_, toml, said) => {
    expect(problemsOf(toml).filter((line) => !line.includes("this version of cgn"))).toEqual(said);
  });
});

describe("loadSettings() with pairs that an engine does not accept", () => {
  it("loadSettings() refuses them by name, with what is accepted, at the place of the dial", () => {
    problemsOf(`[engine]\nkind = "vllm"\nkv_offload = "hicache"\n${MODEL}`);
    const e = failure(() => loadFile("c.toml"));
    expect(e.code).toBe("OFFLOAD_REFUSED");
    expect(e.message).toContain(
      'Cannot use engine.kv_offload at c.toml:3:14: engine kind "vllm" does not accept kv_offload = "hicache"',
    );
    expect(e.message).toContain('With role "both" vllm accepts "none", "nixl", "lmcache", "kvbm"');
    // The list was there twice, in the engine's reason and behind it.
    expect(e.message.match(/kvbm/g)).toHaveLength(1);
    expect(e.details).toMatchObject({
      accepted: ["none", "nixl", "lmcache", "kvbm"],
      problems: [{ line: 3, column: 14 }],
    });
  });

  // An old prefill file that brings its own connector was refused for the dial that it never wrote.
  it("loadConfig() takes a connector that the user wrote in the dial's place", () => {
    const flag = `"--kv-transfer-config", '{"kv_connector":"NixlConnector","kv_role":"kv_producer"}'`;
    const command = `vllm_cmd = ["vllm", "serve", "{model}", ${flag}]`;
    for (const [toml, where] of [
      [`[agent]\nrole = "prefill"\n${command}\n${MODEL}`, "vllm_cmd"],
      [`[engine]\nkind = "vllm"\nrole = "prefill"\n[engine.vllm]\nextra_args = [${flag}]\n${MODEL}`, "extra_args"],
    ] as const) {
      expect(problemsOf(toml)).toEqual([]);
      const [engine] = loadFile("c.toml").engines;
      expect(planEngine(engine!).warnings[0]?.message).toBe(
        `--kv-transfer-config in ${where} is the prefill engine's only connector: kv_offload is "none"`,
      );
    }
    expect(problemsOf(`[engine]\nkind = "vllm"\nrole = "prefill"\n${MODEL}`)[0]).toContain("does not accept");
  });

  it("loadSettings() counts a refusal among other problems", () => {
    problemsOf(`[router]\npolicy = 1\n[engine]\nkind = "llama_cpp"\nkv_offload = "nixl"\n${MODEL}`);
    const e = failure(() => loadFile("c.toml"));
    expect(e.code).toBe("CONFIG_INVALID");
    expect(e.message).toBe('Cannot use "c.toml": it has 2 problems. Mend each, then run "cgn check"');
  });

  it("loadConfig() places a refused role at the role", () => {
    const [said] = problemsOf(`[agent]\nrole = "prefill"\n[engine]\nkind = "llama_cpp"\n${MODEL}`);
    expect(said).toMatch(/^c\.toml:2:8: error: agent\.role: .*llama_cpp accepts role "both" \[offload-refused\]$/);
  });
});

describe("loadSettings() with files that are none", () => {
  it("loadSettings() fails for a named file that is not there", () => {
    expect(failure(() => loadFile("no.toml"))).toMatchObject({
      code: "CONFIG_NOT_FOUND",
      message:
        'Cannot read "no.toml": it does not exist (named by --config). Name a file that is there, or start from one in recipes/',
    });
    const { message } = failure(() => loadSettings({ cwd: dir, env: { CGN_CONFIG: "/no/such" }, host: SAMPLE_HOST }));
    expect(message).toContain('"/no/such": it does not exist (named by $CGN_CONFIG)');
  });

  it("loadSettings() refuses binary, huge, foreign and unreadable files in words", () => {
    mkdirSync(join(dir, "folder"));
    writeFileSync(join(dir, "binary"), Buffer.from([0x7f, 0x45, 0, 1]));
    writeFileSync(join(dir, "latin1"), Buffer.from([0x61, 0xe9, 0x0a]));
    writeFileSync(join(dir, "huge"), Buffer.alloc(5 * 1024 * 1024, 0x23));
    const said = ["folder", "binary", "latin1", "huge"].map((name) => failure(() => loadFile(name)).message);
    expect(said).toEqual([
      'Cannot use "folder": it is a folder. Name the file in it, for example folder/cgn.toml',
      'Cannot use "binary": it is binary, not text. Name a TOML file',
      'Cannot use "latin1": it is not UTF-8. Save it as UTF-8',
      'Cannot use "huge": it has 5242880 bytes, and a configuration has at most 4194304. Name a configuration file',
    ]);
  });

  it("loadSettings() fails with the place for what is not TOML", () => {
    writeFileSync(join(dir, "c.toml"), "[engine]\nkind = vllm\n");
    expect(failure(() => loadFile("c.toml"))).toMatchObject({
      code: "CONFIG_INVALID",
      details: { problems: [{ file: "c.toml", line: 2, column: 8 }] },
    });
  });

  it("loadSettings() takes the defaults when nothing is named and nothing is there", () => {
    const settings = loadSettings({ cwd: join(dir, "folder"), env: {}, host: SAMPLE_HOST });
    expect(settings.engines).toEqual([]);
    expect(settings.router.listenHttp).toEqual({ host: "0.0.0.0", port: 8080 });
  });
});
