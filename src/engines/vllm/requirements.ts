import type { DiskNeed, HostNeeds, MemoryNeed, Peering } from "../../core/host-needs.ts";
import type { LaunchPlan } from "../../core/launch-plan.ts";
import { GIB } from "../../core/units.ts";
import { userValue } from "../args.ts";
import type { LaunchInput } from "../engine.ts";
import { modelNeed, plainNeeds } from "../engine-needs.ts";
import { packageNeed, packagesOf } from "../python-packages.ts";
import { VLLM_BAD_VERSIONS, VLLM_VERSIONS } from "./versions.ts";
import { count, modelArgument, RULES, readLaunch, type VllmLaunch } from "./vllm-context.ts";
import { LMCACHE_DEFAULTS, type VllmOptions } from "./vllm-options.ts";

/** vLLM's own default of `--gpu-memory-utilization` (0.33.0, `vllm/config/cache.py`). */
const MEMORY_SHARE = 0.9;

/** Tensor-parallel ranks talk over /dev/shm (message queue and NCCL): Docker's default of 64 MiB is too little. */
const SHARED_MEMORY_OF_RANKS = 1 * GIB;

/** What a vLLM launch needs of its host. Sizes as the plan's variables and servers say them. */
export function vllmNeeds(input: LaunchInput<VllmOptions>, plan: LaunchPlan): HostNeeds {
  const launch = readLaunch(input);
  const tp = ranks(launch);
  const transfers = hasNixl(plan);
  return {
    ...plainNeeds(plan, "vllm", "pip install vllm"),
    ...(launch.template.length > 0 ? { programKeys: ["agent.vllm_cmd"] } : {}),
    own: packageNeed("vllm", "the engine", VLLM_VERSIONS.range),
    packages: packagesOf(plan, "vllm"),
    badVersions: VLLM_BAD_VERSIONS,
    ...(input.slot.platform === "cpu" ? {} : { gpu: gpuNeed(launch, tp) }),
    model: modelNeed(input.model, "any"),
    memory: [...cacheMemory(launch, plan, tp), ...cpuEngineMemory(launch)],
    disks: disks(launch, plan),
    sharedMemoryBytes: tp * launch.dpSize > 1 || transfers ? SHARED_MEMORY_OF_RANKS : 0,
    locksMemory: transfers,
    refusedVariables: connectorOf(plan) === undefined ? [] : [EXPANDABLE_SEGMENTS],
    fileVariables: plan.kvOffload === "lmcache" ? ["LMCACHE_CONFIG_FILE"] : [],
  };
}

/** What must agree with the engine at the other end. NIXL compares it at its handshake (`nixl/metadata.py`, 0.32.0). */
export function vllmPeering(input: LaunchInput<VllmOptions>, plan: LaunchPlan): Peering | undefined {
  if (input.role === "both" || !hasNixl(plan)) return undefined;
  const launch = readLaunch(input);
  const hybrid = plan.argv.includes("--disable-hybrid-kv-cache-manager") ? "off" : "on";
  return {
    family: "vllm",
    transfer: `NIXL, hybrid KV cache manager ${hybrid}`,
    model: modelArgument(input),
    dtype: userValue(launch.userArgs, ["--dtype"], RULES) ?? input.model.dtype ?? "auto",
    tp: ranks(launch),
    blockTokens: launch.blockTokens,
    // vLLM's docs/features/nixl_connector_compatibility.md: allowed for models that are not hybrid; garbled text is reported.
    largerDecodeBlocks: true,
    otherTp: true,
    hashSeed: seedOf(plan),
    ...(input.slot.engineVersion === undefined ? {} : { version: input.slot.engineVersion }),
    sameVersion: true,
    address: sideChannelHost(plan),
    bindsAddress: true,
  };
}

/** Refused with any connector since KV memory must stay where it is (vllm/config/vllm.py, 0.24 to 0.33). */
const EXPANDABLE_SEGMENTS = {
  name: "PYTORCH_CUDA_ALLOC_CONF",
  pattern: "expandable_segments:True",
  what: "vLLM refuses a KV connector beside expandable_segments:True",
} as const;

const ranks = ({ userArgs, input }: VllmLaunch): number =>
  count(userValue(userArgs, ["--tensor-parallel-size", "-tp", "--tp"], RULES)) ?? input.model.tp;

function connectorOf(plan: LaunchPlan): string | undefined {
  const at = plan.argv.findLastIndex((word) => word.startsWith("--kv-transfer-config"));
  const word = plan.argv[at];
  return word?.includes("=") ? word : plan.argv[at + 1] && at >= 0 ? plan.argv[at + 1] : undefined;
}

const hasNixl = (plan: LaunchPlan): boolean => /Nixl/.test(connectorOf(plan) ?? "");

function sideChannelHost(plan: LaunchPlan): string {
  const value = plan.env["VLLM_NIXL_SIDE_CHANNEL_HOST"];
  // vLLM's own default where the user wrote the connector himself.
  return typeof value === "string" ? value : "localhost";
}

/** A command template may set it by `env PYTHONHASHSEED=…`, which wins over the plan's variable. */
function seedOf(plan: LaunchPlan): string {
  const word = plan.argv.find((each) => each.startsWith("PYTHONHASHSEED="));
  return word?.slice(word.indexOf("=") + 1) ?? String(plan.env["PYTHONHASHSEED"] ?? "random");
}

function gpuNeed(launch: VllmLaunch, tp: number): NonNullable<HostNeeds["gpu"]> {
  const { slot, model } = launch.input;
  const pp = count(userValue(launch.userArgs, ["--pipeline-parallel-size", "-pp"], RULES)) ?? 1;
  const share = Number(userValue(launch.userArgs, ["--gpu-memory-utilization"], RULES));
  return {
    count: tp * pp * launch.dpSize,
    unless: { name: "VLLM_TARGET_DEVICE", value: "cpu" },
    ...(slot.gpus === undefined ? {} : { indices: slot.gpus }),
    memoryShare: share > 0 && share <= 1 ? share : MEMORY_SHARE,
    keys: [`models.${JSON.stringify(model.name)}.tp`, "engine.gpus", "engine.gpu_index", "agent.gpu_index", "engine"],
  };
}

/** LMCache inside the engine has a cache for each rank's process, its server one for all; KVBM's is one for all ranks. */
function cacheMemory(launch: VllmLaunch, plan: LaunchPlan, tp: number): MemoryNeed[] {
  const { lmcache } = launch.input.options;
  const found: MemoryNeed[] = [];
  if (plan.kvOffload === "lmcache" && (lmcache.mode === "mp" || keepsInMemory(plan))) {
    const each = lmcache.cpu_gib ?? LMCACHE_DEFAULTS.cpuGib;
    const times = lmcache.mode === "mp" ? 1 : tp;
    found.push({
      bytes: each * times * GIB,
      what: times === 1 ? `LMCache's CPU cache (${each} GiB)` : `LMCache's CPU cache (${each} GiB × ${times} ranks)`,
      keys: ["engine.vllm.lmcache.cpu_gib", "engine.kv_offload"],
    });
  }
  const kvbm = Number(plan.env["DYN_KVBM_CPU_CACHE_GB"] ?? 0);
  if (kvbm > 0) {
    const keys = ["engine.vllm.kvbm.cpu_cache_gib", "engine.kv_offload"];
    found.push({ bytes: kvbm * GIB, what: `KVBM's CPU cache (${kvbm} GiB)`, keys });
  }
  const offload = Number(userValue(launch.userArgs, ["--kv-offloading-size"], RULES));
  if (offload > 0) {
    const what = `--kv-offloading-size (${offload} GiB, over all ranks)`;
    found.push({ bytes: offload * GIB, what, keys: ["engine.vllm.extra_args"] });
  }
  return found;
}

/** In-process LMCache on a decode side that is plain NIXL, as with PdConnector, has none. */
const keepsInMemory = (plan: LaunchPlan): boolean => /LMCache/.test(connectorOf(plan) ?? "");

/** On a CPU weights and KV lie in host memory; the KV part is what VLLM_CPU_KVCACHE_SPACE says (4 GiB on 0.32.0). */
function cpuEngineMemory({ input }: VllmLaunch): MemoryNeed[] {
  if (input.slot.platform !== "cpu") return [];
  return [
    { bytes: 4 * GIB, what: "vLLM's KV memory on a CPU (4 GiB unless VLLM_CPU_KVCACHE_SPACE says else)", keys: [] },
  ];
}

function disks(launch: VllmLaunch, plan: LaunchPlan): DiskNeed[] {
  const dir = plan.env["DYN_KVBM_DISK_CACHE_DIR"];
  const size = launch.input.options.kvbm.disk_cache_gib;
  if (typeof dir !== "string" || size === undefined) return [];
  const keys = ["engine.vllm.kvbm.disk_cache_gib", "engine.vllm.kvbm.disk_dir"];
  return [{ dir, bytes: size * GIB, what: `KVBM's disk cache (${size} GiB)`, keys }];
}
