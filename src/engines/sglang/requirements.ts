import type { DiskNeed, HostNeeds, MemoryNeed, Peering } from "../../core/host-needs.ts";
import type { LaunchPlan } from "../../core/launch-plan.ts";
import { GIB } from "../../core/units.ts";
import { userValue } from "../args.ts";
import { modelTarget } from "../engine.ts";
import { GB, modelNeed, plainNeeds } from "../engine-needs.ts";
import { packageNeed, packagesOf } from "../python-packages.ts";
import { pageTokens, type SglangInput, userArgsOf } from "./sglang-launch.ts";
import { SGLANG_VERSIONS } from "./versions.ts";

/** Scheduler and tensor-parallel ranks talk over /dev/shm: SGLang's own container examples give 32 GiB, its quick start `--ipc=host`. */
const SHARED_MEMORY_OF_RANKS = 1 * GIB;

/** The third level's folder: a variable, else one in the temporary folder (storage backends `file` and `nixl`, 0.5.23). */
const STORAGE_DIRS: Readonly<Record<string, Pick<DiskNeed, "dir" | "variable">>> = {
  file: { variable: "SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR", dir: "hicache" },
  nixl: { variable: "SGLANG_HICACHE_NIXL_BACKEND_STORAGE_DIR", dir: "hicache_storage" },
};

const RULES = { abbreviations: true } as const;
const TP = ["--tp-size", "--tp", "--tensor-parallel-size"];

/** What an SGLang launch needs of its host. */
export function sglangNeeds(input: SglangInput, plan: LaunchPlan): HostNeeds {
  const { slot, model, options } = input;
  const tp = ranks(input);
  const transfers = input.role !== "both";
  return {
    ...plainNeeds(plan, "sglang", 'pip install "sglang[all]"'),
    own: packageNeed("sglang", "the engine", SGLANG_VERSIONS.range),
    packages: packagesOf(plan, "sglang"),
    ...(slot.platform === "cpu"
      ? {}
      : {
          gpu: {
            count: tp * number(input, ["--pp-size", "--pipeline-parallel-size"]) * replicas(input),
            ...(slot.gpus === undefined ? {} : { indices: slot.gpus }),
            memoryShare: options.mem_fraction_static,
            keys: [
              `models.${JSON.stringify(model.name)}.tp`,
              "engine.gpus",
              "engine.gpu_index",
              "agent.gpu_index",
              "engine",
            ],
          },
        }),
    model: modelNeed(model, "any"),
    memory: hostPool(plan, tp),
    disks: storage(plan),
    sharedMemoryBytes: tp > 1 || transfers ? SHARED_MEMORY_OF_RANKS : 0,
    locksMemory: transfers,
    fileVariables: [],
  };
}

/** What must agree with the engine at the other end: SGLang itself notices at the first request, by hanging. */
export function sglangPeering(input: SglangInput, plan: LaunchPlan): Peering | undefined {
  if (input.role === "both") return undefined;
  const flag = plan.argv.indexOf("--disaggregation-transfer-backend");
  return {
    family: "sglang",
    transfer: plan.argv[flag + 1] ?? "mooncake",
    model: modelTarget(input.model),
    dtype: userValue(userArgsOf(input), ["--dtype"], RULES) ?? input.model.dtype ?? "auto",
    tp: ranks(input),
    blockTokens: pageTokens(input),
    largerDecodeBlocks: false,
    otherTp: false,
    ...(input.slot.engineVersion === undefined ? {} : { version: input.slot.engineVersion }),
    sameVersion: false,
    address: input.slot.peerAddress,
    bindsAddress: false,
  };
}

const ranks = (input: SglangInput): number => number(input, TP, input.model.tp);

/** Data-parallel replicas have GPUs of their own; ranks of data-parallel attention share those of `tp` (sglang/srt/server_args.py, 0.5.23). */
function replicas(input: SglangInput): number {
  if (userArgsOf(input).some((word) => /^--enable-dp-attention\b/.test(word))) return 1;
  return number(input, ["--dp-size", "--data-parallel-size", "--dp"]);
}

function number(input: SglangInput, names: readonly string[], otherwise = 1): number {
  const written = Number(userValue(userArgsOf(input), names, RULES));
  return Number.isInteger(written) && written >= 1 ? written : otherwise;
}

/** `--hicache-size` is per rank in decimal GB (sgl-project/sglang#14282). A ratio depends on the GPU and is not known here. */
function hostPool(plan: LaunchPlan, tp: number): MemoryNeed[] {
  const at = plan.argv.lastIndexOf("--hicache-size");
  const size = at < 0 ? 0 : Number(plan.argv[at + 1]);
  if (!(size > 0)) return [];
  return [
    {
      bytes: size * tp * GB,
      what: `HiCache's host pool (${size} GB × ${tp} ${tp === 1 ? "rank" : "ranks"})`,
      keys: ["engine.sglang.hicache.size_gib", "engine.kv_offload"],
    },
  ];
}

function storage(plan: LaunchPlan): DiskNeed[] {
  const at = plan.argv.lastIndexOf("--hicache-storage-backend");
  const backend = at < 0 ? undefined : plan.argv[at + 1];
  const place = STORAGE_DIRS[backend ?? ""];
  if (place === undefined) return [];
  const keys = ["engine.sglang.hicache.storage"];
  return [{ ...place, inTemp: true, bytes: 0, what: `HiCache's third level (${backend})`, keys }];
}
