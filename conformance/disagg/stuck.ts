import { pause } from "../live/agent-run.ts";
import { metric } from "../live/requests.ts";

/** vLLM lets go of KV that nobody fetched 30 s after the prefill (`kv_lease_duration`, 0.32); a busy machine is slower. */
const LEASE_MS = 90_000;

const GAUGES = ["vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"] as const;

/**
 * Wait until the engines hold nothing of requests that are over: none runs, none waits, no block is in use.
 * @throws Error with their metrics
 */
export async function nothingStuck(engines: readonly string[]): Promise<string> {
  const started = Date.now();
  for (;;) {
    const held: string[] = [];
    for (const url of engines) {
      for (const name of GAUGES) {
        const value = await metric(url, name);
        if (value !== 0) held.push(`${url} ${name} ${value}`);
      }
    }
    const seconds = (Date.now() - started) / 1000;
    if (held.length === 0) return `no block and no request held ${seconds.toFixed(0)} s later`;
    if (seconds * 1000 > LEASE_MS) throw new Error(`${seconds.toFixed(0)} s later still held: ${held.join(", ")}`);
    await pause(500);
  }
}
