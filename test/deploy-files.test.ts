import { spawnSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parser } from "@prometheus-io/lezer-promql";
import { afterAll, describe, expect, it, vi } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { loadConfig } from "../src/config/load.ts";
import { SAMPLE_HOST } from "../src/config/sample-host.ts";
import { findEngine } from "../src/engines/registry.ts";

// The files of deploy/, each put to the tool that will read it. .ci/run installs the tools.
vi.setConfig({ testTimeout: 90_000 });
const ROOT = join(import.meta.dirname, "..");
const must = process.env.CGN_REQUIRE_TOOLS === "1";
const tool = (name: string): string | undefined => {
  const ours = join(ROOT, ".cache", "tools", "bin", name);
  if (existsSync(ours)) return ours;
  const found = spawnSync("sh", ["-c", `command -v ${name}`], { encoding: "utf8" }).stdout.trim();
  return found === "" ? undefined : found;
};
const read = (...path: string[]): string => readFileSync(join(ROOT, "deploy", ...path), "utf8");
const run = (command: string, ...args: string[]) => {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd: ROOT, encoding: "utf8" });
  return { status, said: stdout + stderr, stdout };
};
const DIR = mkdtempSync(join(tmpdir(), "cgn-deploy-"));
afterAll(() => rmSync(DIR, { recursive: true }));
const pkg = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
  readonly version: string;
  readonly bin: Readonly<Record<string, string>>;
};

describe("deploy/docker", () => {
  const files = readdirSync(join(ROOT, "deploy", "docker"));
  const hadolint = tool("hadolint");

  it.skipIf(!must && hadolint === undefined)("hadolint has nothing to say, and refuses what is wrong", () => {
    const paths = files.map((name) => join("deploy", "docker", name));
    expect(run(hadolint!, ...paths)).toMatchObject({ status: 0, said: "" });
    const wrong = join(DIR, "Dockerfile");
    writeFileSync(wrong, "FROM node\nRUN cd /x && sudo ls\n");
    expect(run(hadolint!, wrong).said).toContain("DL3004");
  });

  it.each(files)("%s starts what the package has, on the Node of the set-up, with an engine that cgn knows", (name) => {
    const text = read("docker", name);
    const [, pinned] = /const PINNED = "([\d.]+)"/.exec(readFileSync(join(ROOT, "scripts", "node.mjs"), "utf8")) ?? [];
    const nodes = [...text.matchAll(/^FROM node:([\d.]+)-/gm)].map(([, version]) => version);
    expect(new Set(nodes)).toEqual(new Set([pinned]));
    const entries = [...text.matchAll(/^ENTRYPOINT \["([^"]+)"/gm)].map(([, program]) => program!);
    expect(entries.length).toBeGreaterThan(0);
    for (const program of entries) expect(Object.keys(pkg.bin)).toContain(program);
    const [, engine] = /^ARG ENGINE=(\S+)$/m.exec(text) ?? [];
    const vllm = findEngine("vllm");
    if (engine !== undefined) expect(engine).toBe(vllm.image?.(vllm.newestVersion!));
  });

  it("sends no caches, tests and packages to the build, and everything that it reads", () => {
    const ignored = readFileSync(join(ROOT, ".dockerignore"), "utf8").split("\n");
    expect(ignored).toEqual(expect.arrayContaining([".cache", "node_modules", "test", ".git"]));
    const needed = ["src", "scripts", "proto", "recipes", "launchers", "deploy", "tsconfig.build.json", "buf.gen.yaml"];
    for (const path of needed) {
      expect(existsSync(join(ROOT, path)), path).toBe(true);
      expect(ignored).not.toContain(path);
    }
  });
});

describe("deploy/systemd", () => {
  const analyze = tool("systemd-analyze");
  const units = readdirSync(join(ROOT, "deploy", "systemd")).filter((name) => name.endsWith(".service"));

  it.skipIf(!must && analyze === undefined)("systemd-analyze verify takes every unit, and refuses a wrong one", () => {
    const verify = (name: string, text: string) => {
      const path = join(DIR, name);
      writeFileSync(path, text);
      return run(analyze!, "verify", "--man=no", path)
        .said.split("\n")
        .filter((line) => line.includes(name));
    };
    expect(units.length).toBe(4);
    for (const name of units) expect(verify(name, read("systemd", name))).toEqual([]);
    const wrong = read("systemd", "cgn.service").replace("KillMode=mixed", "KillMode=gently");
    expect(verify("cgn.service", wrong).join()).toContain("kill mode");
  });

  it.each(units)("%s starts a command that there is", (name) => {
    const [, words = ""] = /^ExecStart=\/usr\/bin\/env (.+)$/m.exec(read("systemd", name)) ?? [];
    const [command] = words.replace("cgn ", "").split(" ");
    expect(readFileSync(join(ROOT, "docs", "cli.md"), "utf8")).toContain(`cgn ${command}`);
  });
});

describe("deploy/compose", () => {
  const compose = tool("docker-compose");

  it.skipIf(!must && compose === undefined)("docker-compose config takes it", () => {
    const { status, stdout, said } = run(compose!, "-f", "deploy/compose/compose.yaml", "config");
    expect(status, said).toBe(0);
    expect(Object.keys(parse(stdout).services).sort()).toEqual(["kvcached", "prometheus", "router"]);
  });

  it("has a configuration without a problem", () => {
    const { problems } = loadConfig({ path: "deploy/compose/cgn.toml", cwd: ROOT, env: {}, host: SAMPLE_HOST });
    expect(problems).toEqual([]);
  });
});

describe("deploy/helm", () => {
  const python = tool("python");
  const validate = tool("kubernetes-validate");
  const hasHelm = python !== undefined && run(python, "-c", "import helm_python").status === 0;

  /** Lint and render with Helm's own library. */
  function render(values: object, chart = "deploy/helm/cgn") {
    const { status, stdout, said } = run(python!, "test/helpers/helm.py", chart, JSON.stringify(values));
    expect(status, said).toBe(0);
    const { messages, files } = JSON.parse(stdout) as { messages: string[]; files: Record<string, string> };
    const text = Object.keys(files)
      .filter((path) => path.endsWith(".yaml"))
      .map((path) => files[path])
      .join("\n---\n");
    return { messages, text };
  }

  it.skipIf(!must && (!hasHelm || validate === undefined)).each([
    ["its own values", {}],
    ["agents elsewhere", { agent: { enabled: false }, router: { serviceType: "LoadBalancer", replicas: 1 } }],
    [
      "engines without GPUs",
      {
        agent: {
          gpus: 0,
          modelsClaim: "models",
          nodeSelector: { a: "b" },
          tolerations: [{ key: "k", operator: "Exists" }],
        },
      },
    ],
  ])("is lint free, and Kubernetes takes what it renders, with %s", (_, values) => {
    const { messages, text } = render(values);
    expect(messages).toEqual([]);
    const path = join(DIR, "chart.yaml");
    writeFileSync(path, text);
    expect(run(validate!, "--strict", "-k", "1.34", "--no-warn", path)).toMatchObject({ status: 0 });
    for (const { kind, spec } of parseAllDocuments(text).map((each) => each.toJS() as { kind: string; spec: never }))
      if (kind === "Service") expect(JSON.stringify(spec)).toMatch(/"(rpc|http)"/);
  });

  it.skipIf(!must && !hasHelm)("says what is wrong with values that its schema does not take", () => {
    const { said } = run(python!, "test/helpers/helm.py", "deploy/helm/cgn", '{"router":{"port":"x"}}');
    expect(said).toContain("port");
  });

  it("has a configuration that the daemons take with the variables that the chart sets", () => {
    const { config } = parse(read("helm", "cgn", "values.yaml")) as { readonly config: string };
    const path = join(DIR, "cgn.toml");
    writeFileSync(path, config);
    chmodSync(path, 0o644);
    const names = ["_helpers.tpl", "router.yaml", "agent.yaml"]
      .flatMap((name) => [...read("helm", "cgn", "templates", name).matchAll(/name: (CGN__\w+)/g)])
      .map(([, name]) => name!);
    expect(names.length).toBe(6);
    const given: Record<string, string> = {
      CGN__CLUSTER__STATE_BACKEND: "kubernetes",
      CGN__CLUSTER__KUBERNETES_NAMESPACE: "llm",
      CGN__CLUSTER__ADVERTISE_HOST: "10.1.2.3",
      CGN__AGENT__PEER_ADDRESS: "10.1.2.3",
      CGN__ROUTER__LISTEN_HTTP: "0.0.0.0:8080",
      CGN__ROUTER__LISTEN_ADMIN: "0.0.0.0:9091",
    };
    const env = Object.fromEntries(names.map((name) => [name, given[name]]));
    expect(Object.values(env)).not.toContain(undefined);
    const { problems } = loadConfig({ path, cwd: DIR, env, host: SAMPLE_HOST });
    expect(problems).toEqual([]);
  });

  it("has the version of the package", () => {
    const { version, appVersion } = parse(read("helm", "cgn", "Chart.yaml")) as Record<string, string>;
    expect([version, appVersion]).toEqual([pkg.version, pkg.version]);
    expect(read("helm", "cgn", "values.yaml")).toContain(`cgn-router:${pkg.version}`);
  });
});

describe("deploy/prometheus and deploy/grafana", () => {
  const promtool = tool("promtool");

  it.skipIf(!must && promtool === undefined)("promtool takes the rules and Compose's configuration", () => {
    const rules = join(DIR, "cgn-rules.yml");
    copyFileSync(join(ROOT, "deploy", "prometheus", "cgn-rules.yml"), rules);
    copyFileSync(join(ROOT, "deploy", "compose", "prometheus.yml"), join(DIR, "prometheus.yml"));
    expect(run(promtool!, "check", "rules", rules).said).toContain("SUCCESS");
    const { status, said } = run(promtool!, "check", "config", join(DIR, "prometheus.yml"));
    expect(status, said).toBe(0);
    writeFileSync(rules, "groups: [{ name: a, rules: [{ alert: b, expr: 'sum(' }] }]\n");
    expect(run(promtool!, "check", "rules", rules).status).not.toBe(0);
  });

  const cases = readFileSync(join(ROOT, "test", "prometheus", "cgn-rules-test.yml"), "utf8");

  it.skipIf(!must && promtool === undefined)(
    "promtool test rules: each alert fires where it must, and only there",
    () => {
      const dir = mkdtempSync(join(DIR, "rules-"));
      const rules = read("prometheus", "cgn-rules.yml");
      const test = (rulesText: string) => {
        writeFileSync(join(dir, "cgn-rules.yml"), rulesText);
        writeFileSync(join(dir, "cases.yml"), cases);
        return run(promtool!, "test", "rules", join(dir, "cases.yml"));
      };
      const { status, said } = test(rules);
      expect(status, said).toBe(0);
      expect(test(rules.replace("> 0.02", "> 0.5")).said).toContain("CgnErrors");
    },
  );

  it("each alert has a case in which it fires, and one in which it does not; each recorded series has one", () => {
    interface Case {
      readonly alert_rule_test?: readonly { readonly alertname: string; readonly exp_alerts: readonly unknown[] }[];
      readonly promql_expr_test?: readonly { readonly expr: string }[];
    }
    const { tests } = parse(cases) as { readonly tests: readonly Case[] };
    const tried = tests.flatMap((each) => each.alert_rule_test ?? []);
    const queried = tests.flatMap((each) => each.promql_expr_test ?? []).map(({ expr }) => expr);
    const { groups } = parse(read("prometheus", "cgn-rules.yml")) as {
      readonly groups: readonly { readonly rules: readonly { readonly alert?: string; readonly record?: string }[] }[];
    };
    for (const { alert, record } of groups.flatMap(({ rules }) => rules)) {
      if (record !== undefined) expect(queried.join("\n")).toContain(record);
      if (alert === undefined) continue;
      const fired = tried.filter(({ alertname }) => alertname === alert).map(({ exp_alerts: all }) => all.length > 0);
      expect(fired, alert).toContain(true);
      // A certificate of another instance is left out in the case in which one fires.
      if (alert !== "CgnCertificateEnds") expect(fired, alert).toContain(false);
    }
  });

  const { panels } = JSON.parse(read("grafana", "cgn.json")) as {
    readonly panels: readonly { readonly targets?: readonly { readonly expr: string }[] }[];
  };
  const queries = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));

  it.skipIf(!must && promtool === undefined)("Prometheus' own parser takes every query of the Grafana file", () => {
    const path = join(DIR, "queries.yml");
    const check = (all: readonly string[]) => {
      const rules = all.map((expr, n) => ({ record: `query_${n}`, expr: filledQuery(expr) }));
      // JSON is YAML.
      writeFileSync(path, JSON.stringify({ groups: [{ name: "queries", rules }] }));
      return run(promtool!, "check", "rules", path);
    };
    expect(check(queries).said).toContain(`SUCCESS: ${queries.length} rules found`);
    expect(check(["rate(x)"]).said).toContain("range vector");
  });

  const python = tool("python");
  const hasSdk = python !== undefined && run(python, "-c", "import grafana_foundation_sdk").status === 0;

  it.skipIf(!must && !hasSdk)("Grafana's own schema has every member of the Grafana file", () => {
    const check = (path: string) => run(python!, "test/helpers/grafana.py", path);
    expect(check("deploy/grafana/cgn.json")).toMatchObject({ status: 0, said: "" });
    const wrong = join(DIR, "wrong.json");
    writeFileSync(wrong, read("grafana", "cgn.json").replace('"gridPos"', '"gridPlace"'));
    expect(check(wrong).said).toContain("gridPlace");
  });

  it("every query of the Grafana file is PromQL", () => {
    expect(queries.length).toBeGreaterThan(10);
    for (const query of queries) expect(promqlError(query), query).toBeUndefined();
    expect(promqlError("sum(rate(x[5m])) by")).toBeDefined();
    expect(promqlError("sum(rate(x[5m])")).toBeDefined();
  });
});

/** As Grafana fills in its variables. */
const filledQuery = (query: string): string =>
  query.replaceAll(/\$__(rate_interval|interval|range)\b/g, "5m").replaceAll(/\$\w+|\$\{\w+[^}]*\}/g, "x");

/** Where a query is not PromQL by Prometheus' own grammar. */
function promqlError(query: string): number | undefined {
  const text = filledQuery(query);
  let at: number | undefined;
  parser.parse(text).iterate({
    enter(node) {
      if (node.type.isError) at ??= node.from;
    },
  });
  return at;
}
