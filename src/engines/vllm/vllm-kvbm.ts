import type { PlanWarning } from "../../core/launch-plan.ts";
import { sidePort } from "../side-ports.ts";
import { envPart, joinParts, type PlanPart, type VllmLaunch } from "./vllm-context.ts";
import { KVBM_DEFAULT_CPU_GIB } from "./vllm-options.ts";

const SOURCE = "Dynamo KVBM 1.6.1, its environment variables";

/** Said on every role: upstream has announced the end of KVBM. */
export const KVBM_RETIRING: PlanWarning = {
  code: "kvbm-retiring",
  message: "NVIDIA is retiring KVBM (ai-dynamo/dynamo#13755)",
  remedy:
    'Plan for kv_offload = "lmcache", or for vLLM\'s own CPU offload (kv_offload = "none" with --kv-offloading-size)',
};

export const KVBM_PACKAGE = { what: "python package", name: "kvbm", range: ">=1.6.1" } as const;

/** What a vLLM engine with KVBM needs besides its connector: cache sizes and ports that no other engine of the host uses. */
export function kvbmPart(launch: VllmLaunch): PlanPart {
  const { slot, readyTimeoutMs } = launch.input;
  const pub = sidePort(slot, "kvbmPub");
  const metrics = sidePort(slot, "kvbmMetrics");
  const variable = (name: string, value: number | string, why: string): PlanPart =>
    envPart(name, String(value), why, SOURCE);
  return joinParts([
    { requires: [KVBM_PACKAGE] },
    cachePart(launch),
    variable("DYN_RUNTIME_ENABLED_KVBM", 0, "Off: KVBM must not look for Dynamo's etcd and NATS"),
    variable("DYN_KVBM_KV_EVENTS_ENABLE_CONSOLIDATOR", "false", "cgn reads vLLM's own events; no second publisher"),
    variable("DYN_KVBM_LEADER_ZMQ_HOST", "127.0.0.1", "The leader talks to workers of this host only"),
    variable("DYN_KVBM_LEADER_ZMQ_PUB_PORT", pub, "Own port; rank N takes this + 2N"),
    variable(
      "DYN_KVBM_LEADER_ZMQ_ACK_PORT",
      pub + 1,
      "Newer releases take PUB + 1 whatever is written, older ones read this",
    ),
    variable(
      "DYN_KVBM_LEADER_WORKER_INIT_TIMEOUT_SECS",
      Math.ceil(readyTimeoutMs / 1000),
      "The engine's ready timeout",
    ),
    variable("DYN_KVBM_METRICS_PORT", metrics, "Own port, for when DYN_KVBM_METRICS is set"),
    {
      ports: [
        { name: "kvbm-leader", port: pub, count: 2 * launch.dpSize },
        { name: "kvbm-metrics", port: metrics },
      ],
    },
  ]);
}

function cachePart(launch: VllmLaunch): PlanPart {
  const { cpu_cache_gib: cpu, disk_cache_gib: disk } = launch.input.options.kvbm;
  const cpuSize = cpu ?? (disk === undefined ? KVBM_DEFAULT_CPU_GIB : undefined);
  const parts: PlanPart[] = [];
  if (cpuSize !== undefined) {
    parts.push(envPart("DYN_KVBM_CPU_CACHE_GB", String(cpuSize), "kvbm.cpu_cache_gib", SOURCE));
  }
  if (disk !== undefined) {
    parts.push(envPart("DYN_KVBM_DISK_CACHE_GB", String(disk), "kvbm.disk_cache_gib", SOURCE), diskDirPart(launch));
  }
  return joinParts([...parts, { warnings: sizeWarnings(cpu, disk) }]);
}

/** Two engines in one folder overwrite each other's blocks, so each takes a subfolder. The file makes it exist. */
function diskDirPart(launch: VllmLaunch): PlanPart {
  const { slot, options } = launch.input;
  const dir = `${options.kvbm.disk_dir ?? `${slot.stateDir}/kvbm`}/${slot.port}`;
  const content = "Disk cache of one engine. May be deleted while the engine is stopped.\n";
  return joinParts([
    envPart("DYN_KVBM_DISK_CACHE_DIR", dir, "A folder of this engine alone", SOURCE),
    { files: [{ path: `${dir}/README.txt`, mode: "0600", content }] },
  ]);
}

function sizeWarnings(cpu: number | undefined, disk: number | undefined): PlanWarning[] {
  if (cpu === undefined && disk === undefined) {
    return [
      {
        code: "kvbm-default-size",
        message: `No KVBM cache size is written, and KVBM does not start without one: ${KVBM_DEFAULT_CPU_GIB} GiB of CPU memory are taken`,
        remedy: "Set engine.vllm.kvbm.cpu_cache_gib to more than the GPU's KV memory",
      },
    ];
  }
  if (cpu === undefined || disk === undefined || disk >= cpu) return [];
  return [
    {
      code: "kvbm-disk-below-cpu",
      message: `KVBM's disk cache (${disk} GiB) is smaller than its CPU cache (${cpu} GiB), so it holds nothing that memory does not`,
      remedy: "Set engine.vllm.kvbm.disk_cache_gib above cpu_cache_gib, or leave it out",
    },
  ];
}
