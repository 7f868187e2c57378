import { join } from "node:path";
import { LAUNCHERS } from "../places.ts";
import type { RealEngine } from "./real-engine.ts";

/** Where the demo listens; 0 lets the system choose. */
export interface DemoPorts {
  readonly http: number;
  readonly admin: number;
  /** Two, one an engine. */
  readonly engines: readonly [number, number];
}

const quoted = (text: string): string => JSON.stringify(text);

function common(ports: DemoPorts, stateDir: string): string {
  return `# Written by "cgn demo": two engines of one small model behind one endpoint.
[router]
listen_http = "127.0.0.1:${ports.http}"
listen_admin = "127.0.0.1:${ports.admin}"

[agent]
node_id = "demo"
log_dir = ${quoted(join(stateDir, "logs"))}
state_dir = ${quoted(stateDir)}
ready_timeout = "60s"

[kv]
index_dir = ${quoted(join(stateDir, "index"))}
`;
}

/** Two llama.cpp servers, one thread each: two would spin against each other on two cores. */
export function realConfig(engine: RealEngine, ports: DemoPorts, stateDir: string): string {
  const one = (port: number, n: number): string => `
[[engines]]
kind = "llama_cpp"
node_id = "llama-${n}"
model = "smollm2"
url = "http://127.0.0.1:${port}"

[engines.llama_cpp]
mode = "xllamacpp"
binary = ${quoted(engine.python)}
n_ctx = 8192
n_threads = 1
`;
  return `${common(ports, stateDir)}
[models.smollm2]
path = ${quoted(engine.gguf)}
${ports.engines.map((port, i) => one(port, i + 1)).join("")}`;
}

/** Two simulated vLLM engines that publish KV events; nothing needs to be installed for them. */
export function simConfig(ports: DemoPorts, stateDir: string): string {
  const one = (port: number, n: number): string => `
[[engines]]
kind = "vllm"
node_id = "vllm-${n}"
model = "sim"
url = "http://127.0.0.1:${port}"

[engines.vllm]
binary = ${quoted(join(LAUNCHERS, "sim-vllm.mjs"))}
extra_args = ["--sim-profile", "cpu-small"]
`;
  return `${common(ports, stateDir)}
[models.sim]
tokenizer = "bytes"
${ports.engines.map((port, i) => one(port, i + 1)).join("")}`;
}
