import { mkdirSync } from "node:fs";
import { join } from "node:path";
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
}

export const LEASE_MS = 6_000;

/** One file for all daemons of a host. */
export function hostConfig({ name, address, ports, etcd, dir }: HostPlan): string {
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
`;
}

/** Start a daemon of a host on its file. */
export function startDaemon(
  plan: HostPlan,
  file: string,
  kind: "agent" | "kvcached" | "router",
  ...more: readonly string[]
): CgnProcess {
  mkdirSync(plan.dir, { recursive: true });
  return startCgn([kind, "--config", file, ...more], { XDG_RUNTIME_DIR: plan.dir }, plan.dir, plan.within);
}

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

export interface Asked {
  readonly status: number;
  readonly node: string;
  readonly ms: number;
  readonly said: string;
}

/** One request that is not streamed; status 0: no answer. */
export async function ask(plan: HostPlan, text: string, timeoutMs = 60_000): Promise<Asked> {
  const start = performance.now();
  const since = (): number => Math.round(performance.now() - start);
  try {
    const answer = await fetch(`http://${plan.address}:${plan.ports.http}/v1/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: "sim", prompt: text, max_tokens: 4 }),
      signal: AbortSignal.timeout(timeoutMs),
    });
    const said = await answer.text();
    return {
      status: answer.status,
      node: answer.headers.get("x-cgn-node") ?? "",
      ms: since(),
      said: said.slice(0, 300),
    };
  } catch (error) {
    return { status: 0, node: "", ms: since(), said: String(error) };
  }
}
