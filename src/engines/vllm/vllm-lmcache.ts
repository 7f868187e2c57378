import type { Problem } from "../../core/errors.ts";
import type { PlanSidecar, PlanWarning } from "../../core/launch-plan.ts";
import { sidePort } from "../side-ports.ts";
import { envPart, joinParts, type PlanPart, type VllmLaunch } from "./vllm-context.ts";
import { LMCACHE_DEFAULTS } from "./vllm-options.ts";

const CONFIG_SOURCE = "lmcache/v1/config.py, LMCache 0.5.6";

/** The port of the LMCache server of an engine (mode `mp`). */
export function lmcachePort(launch: VllmLaunch): number {
  return launch.input.options.lmcache.port ?? sidePort(launch.input.slot, "lmcache");
}

/** What LMCache needs besides its connector: variables inside the engine, or a server beside it. */
export function lmcachePart(launch: VllmLaunch): PlanPart {
  const shared: PlanPart = {
    problems: lmcacheProblems(launch),
    warnings: lmcacheWarnings(launch),
    requires: [{ what: "python package", name: "lmcache", range: ">=0.5.0" }],
  };
  const own = launch.input.options.lmcache.mode === "mp" ? serverPart(launch) : inProcessPart(launch);
  return joinParts([shared, own]);
}

/** Only what was written: these variables win over a file that the user may have named in LMCACHE_CONFIG_FILE. */
function inProcessPart(launch: VllmLaunch): PlanPart {
  const { chunk_size, cpu_gib } = launch.input.options.lmcache;
  const chunk =
    chunk_size === undefined
      ? {}
      : envPart("LMCACHE_CHUNK_SIZE", String(chunk_size), "lmcache.chunk_size", CONFIG_SOURCE);
  if (cpu_gib === undefined) return chunk;
  return joinParts([
    chunk,
    envPart("LMCACHE_LOCAL_CPU", "True", "lmcache.cpu_gib: keep KV in CPU memory", CONFIG_SOURCE),
    envPart("LMCACHE_MAX_LOCAL_CPU_SIZE", String(cpu_gib), "lmcache.cpu_gib", CONFIG_SOURCE),
  ]);
}

function serverPart(launch: VllmLaunch): PlanPart {
  const { slot } = launch.input;
  return {
    sidecars: [server(launch)],
    ports: [
      { name: "lmcache", port: lmcachePort(launch) },
      { name: "lmcache-http", port: sidePort(slot, "lmcacheHttp") },
      { name: "lmcache-prometheus", port: sidePort(slot, "lmcachePrometheus") },
    ],
    requires: [{ what: "binary", name: lmcacheBinary(launch.input.options.binary) }],
  };
}

/** The `lmcache server` (0.5.6) of one engine; vLLM's connector blocks at start until it answers. */
function server(launch: VllmLaunch): PlanSidecar {
  const { slot, options, readyTimeoutMs } = launch.input;
  const { host, chunk_size, cpu_gib } = options.lmcache;
  const port = lmcachePort(launch);
  return {
    name: "lmcache",
    argv: [
      lmcacheBinary(options.binary),
      "server",
      ...["--host", host, "--port", String(port)],
      ...["--http-host", host, "--http-port", String(sidePort(slot, "lmcacheHttp"))],
      ...["--prometheus-port", String(sidePort(slot, "lmcachePrometheus"))],
      ...["--l1-size-gb", String(cpu_gib ?? LMCACHE_DEFAULTS.cpuGib)],
      ...["--chunk-size", String(chunk_size ?? LMCACHE_DEFAULTS.chunkTokens)],
      ...["--eviction-policy", "LRU"],
      // Without it a server refuses an engine on the CPU, which then hangs at start (0.5.6 with vLLM 0.32.0).
      ...(slot.platform === "cpu" ? ["--supported-transfer-mode", "auto"] : []),
    ],
    env: {
      PYTHONHASHSEED: "0",
      ...(slot.gpus === undefined ? {} : { CUDA_VISIBLE_DEVICES: slot.gpus.join(",") }),
    },
    ready: { tcpPort: port, timeoutMs: readyTimeoutMs },
  };
}

/** The program that pip installs beside `vllm`. */
function lmcacheBinary(vllmBinary: string): string {
  return vllmBinary.includes("/") ? vllmBinary.replace(/[^/]*$/, "lmcache") : "lmcache";
}

function lmcacheProblems(launch: VllmLaunch): Problem[] {
  const { chunk_size, mode, wrapper } = launch.input.options.lmcache;
  const problems: Problem[] = [];
  const chunk = chunk_size ?? LMCACHE_DEFAULTS.chunkTokens;
  if (chunk % launch.blockTokens !== 0) {
    problems.push({
      severity: "error",
      path: "engine.vllm.lmcache.chunk_size",
      problem: `${chunk} is no multiple of the block size ${launch.blockTokens}`,
      remedy: `Write ${Math.ceil(chunk / launch.blockTokens) * launch.blockTokens}`,
    });
  }
  if (wrapper === "pd_connector" && mode === "mp") {
    problems.push({
      severity: "error",
      path: "engine.vllm.lmcache.wrapper",
      problem:
        '"pd_connector" does not take LMCache in mode "mp": its first child must be LMCacheConnectorV1 (kvbm 1.6.1)',
      remedy: 'Write wrapper = "multi", or mode = "in_process"',
    });
  }
  return problems;
}

function lmcacheWarnings(launch: VllmLaunch): PlanWarning[] {
  const { slot, options } = launch.input;
  const warnings: PlanWarning[] = [];
  if (options.lmcache.mode === "in_process" && slot.platform === "cpu") {
    warnings.push({
      code: "lmcache-degraded-on-cpu",
      message: "LMCache inside vLLM has no CPU support: each request waits about 3 s and nothing is reused",
      remedy: 'Set engine.vllm.lmcache.mode = "mp", which works on a CPU',
    });
  }
  if (slot.engineVersion?.startsWith("0.26.") === true) {
    warnings.push({
      code: "lmcache-wrong-text",
      message:
        "vLLM 0.26 with LMCache is reported to answer with wrong text after a cache hit (vllm-project/vllm#52617)",
      remedy: "Use vLLM 0.32 or newer",
    });
  }
  return warnings;
}
