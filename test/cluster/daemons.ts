import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { hashApiKey } from "../../src/access/api-key.ts";
import { LAUNCHERS } from "../../src/cli/places.ts";
import { type CgnProcess, startCgn } from "../helpers/cgn-process.ts";

/** Where a host's daemons listen, and what they share with the others. */
export interface HostPlan {
  readonly name: string;
  readonly address: string;
  readonly ports: Readonly<Record<"agent" | "agentAdmin" | "kv" | "engine" | "http" | "admin", number>>;
  readonly etcd: readonly string[];
  /** A folder of its own. */
  readonly dir: string;
  readonly within?: readonly string[];
  /** Asked for by the router, for everything; without one nobody is asked. */
  readonly key?: string;
  /** Engines outlive their agent. */
  readonly keepsEngines?: boolean;
}

export const LEASE_MS = 6_000;

/** One file for all daemons of a host. */
export function hostConfig({ name, address, ports, etcd, dir, key, keepsEngines = false }: HostPlan): string {
  const at = (port: number): string => JSON.stringify(`${address}:${port}`);
  return `
[cluster]
name = "test"
etcd_endpoints = ${JSON.stringify(etcd)}
lease_ttl = "${LEASE_MS / 1000}s"
[router]
node_id = "${name}"
listen_http = ${at(ports.http)}
listen_admin = ${at(ports.admin)}
[agent]
node_id = "${name}"
listen = ${at(ports.agent)}
listen_admin = "127.0.0.1:${ports.agentAdmin}"
kv_uds = ${JSON.stringify(join(dir, "kv.sock"))}
state_dir = ${JSON.stringify(dir)}
keep_engines = ${keepsEngines}
log_dir = ${JSON.stringify(join(dir, "logs"))}
[kv]
uds = ${JSON.stringify(join(dir, "kv.sock"))}
listen = ${at(ports.kv)}
index_dir = ${JSON.stringify(join(dir, "index"))}
[[engines]]
kind = "vllm"
node_id = "${name}"
model = "sim"
url = "http://${address}:${ports.engine}"
[engines.vllm]
binary = ${JSON.stringify(join(LAUNCHERS, "sim-vllm.mjs"))}
extra_args = ["--sim-profile", "cpu-small"]
[models.sim]
tokenizer = "bytes"
${key === undefined ? "" : authOf(key)}`;
}

const authOf = (key: string): string => `
[auth]
enabled = true
[[auth.keys]]
hash = "${hashApiKey(key)}"
scopes = ["inference", "metrics", "admin"]
`;

/** Start a daemon of a host on its file. `skewMs`: how wrong the wall clock is that it sees, and all that it starts. */
export function startDaemon(
  plan: HostPlan,
  file: string,
  kind: "agent" | "kvcached" | "router",
  { skewMs = 0 }: { readonly skewMs?: number } = {},
): CgnProcess {
  mkdirSync(plan.dir, { recursive: true });
  const skew = { NODE_OPTIONS: `--import ${pathToFileURL(SKEWED)}`, CGN_TEST_SKEW_MS: String(skewMs) };
  const env = { XDG_RUNTIME_DIR: plan.dir, ...(skewMs === 0 ? {} : skew) };
  return startCgn([kind, "--config", file], env, plan.dir, plan.within);
}

const SKEWED = join(import.meta.dirname, "skewed-clock.mjs");

/** What `/readyz` says: it is open also off loopback. Undefined: no answer. */
export interface Ready {
  readonly workers: number;
  readonly ready: number;
  readonly notReady: Readonly<Record<string, string>>;
  readonly cluster: { readonly ok: boolean; readonly reason?: string };
}

export async function readyOf(plan: HostPlan): Promise<Ready | undefined> {
  try {
    const url = `http://${plan.address}:${plan.ports.admin}/readyz`;
    const answer = await fetch(url, { signal: AbortSignal.timeout(3_000) });
    const { models, notReady, cluster } = (await answer.json()) as {
      models: Record<string, { ready: number; workers: number }>;
      notReady: Record<string, string>;
      cluster: Ready["cluster"];
    };
    const { ready = 0, workers = 0 } = models["sim"] ?? {};
    return { ready, workers, notReady, cluster };
  } catch {
    return undefined;
  }
}

/** A request's answer as its client saw it. */
export interface Asked {
  /** `cut`: an answer that had begun ended with an explicit error in its stream. */
  readonly end: "ok" | "cut" | "failed";
  /** 0: no answer. */
  readonly status: number;
  readonly node: string;
  readonly ms: number;
  readonly said: string;
  /** Nothing was answered by this router: another one may be asked without harm. */
  readonly isFresh: boolean;
}

export interface Question {
  readonly text: string;
  readonly stream?: boolean;
  readonly maxTokens?: number;
  readonly timeoutMs?: number;
}

/** Ask a router once. Never rejects. */
export async function ask(plan: HostPlan, question: string | Question): Promise<Asked> {
  const {
    text,
    stream = false,
    maxTokens = 4,
    timeoutMs = 60_000,
  } = typeof question === "string" ? { text: question } : question;
  const start = performance.now();
  const since = (): number => Math.round(performance.now() - start);
  let answer: Response | undefined;
  try {
    answer = await fetch(`http://${plan.address}:${plan.ports.http}/v1/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", ...keyOf(plan) },
      body: JSON.stringify({ model: "sim", prompt: text, max_tokens: maxTokens, stream }),
      signal: AbortSignal.timeout(timeoutMs),
    });
    const said = await answer.text();
    const { status } = answer;
    const node = answer.headers.get("x-cgn-node") ?? "";
    const isError = /^data: \{"error"|^event: error/m.test(said);
    const isWhole = stream ? /^data: \[DONE\]/m.test(said) && !isError : true;
    const end = status !== 200 ? "failed" : isWhole ? "ok" : isError ? "cut" : "failed";
    return { end, status, node, ms: since(), said: end === "ok" ? "" : said.slice(-300), isFresh: status === 503 };
  } catch (error) {
    const { cause } = error as Error;
    const said = `${error}${cause === undefined ? "" : ` (${cause})`}`;
    return { end: "failed", status: 0, node: "", ms: since(), said, isFresh: answer === undefined };
  }
}

const keyOf = ({ key }: HostPlan): Record<string, string> =>
  key === undefined ? {} : { authorization: `Bearer ${key}` };

/** The parts of a decision that are judged; a router's admin port tells the last 2,000. */
export interface Decision {
  readonly id: string;
  /** By the router's wall clock. */
  readonly at: number;
  readonly attempts: readonly { readonly node: string; readonly predictedCachedTokens: number }[];
  readonly outcome?: { readonly result: string; readonly cachedTokens?: number };
}

/** Ask a router's admin port. @throws where it does not answer 200 */
export async function askAdmin(plan: HostPlan, path: string, method: "GET" | "POST" = "GET"): Promise<object> {
  const url = `http://${plan.address}:${plan.ports.admin}${path}`;
  const answer = await fetch(url, { method, headers: keyOf(plan), signal: AbortSignal.timeout(10_000) });
  const text = await answer.text();
  if (answer.status !== 200) throw new Error(`${method} ${path}: ${answer.status} ${text.slice(0, 300)}`);
  return JSON.parse(text) as object;
}

export async function decisionsOf(plan: HostPlan): Promise<readonly Decision[]> {
  return ((await askAdmin(plan, "/v1/cgn/decisions?limit=2000")) as { decisions: Decision[] }).decisions;
}
