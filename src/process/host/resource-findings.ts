import type { Finding } from "../../core/findings.ts";
import { gib, shellWord } from "./finding-text.ts";
import type { CheckedLaunch } from "./findings.ts";
import type { HostState } from "./host-state.ts";

/** Ports that somebody else listens on. */
export function portFindings({ state }: CheckedLaunch): Finding[] {
  return state.ports.map(({ name, port, holder }): Finding => {
    const by = holder === undefined ? "another process" : `${holder.command} (pid ${holder.pid})`;
    return {
      code: "port-in-use",
      severity: "error",
      what: `port ${port} (${name}) is in use by ${by}`,
      remedy: "End that process, or choose another port",
      keys: name === "http" ? ["engine.url", "engine"] : ["agent.side_port_base", "engine"],
      ...(holder === undefined ? {} : { fix: `kill ${holder.pid}` }),
    };
  });
}

/** Files that a plan, or a variable, names and that are not there. */
export function fileFindings({ needs, state }: CheckedLaunch): Finding[] {
  const plain = state.missingFiles.map((file): Finding => {
    const what = `"${file}" does not exist`;
    return { code: "file-missing", severity: "error", what, remedy: "Install cgn again", keys: needs.programKeys };
  });
  const named = state.missingFileVariables.map((name): Finding => {
    const what = `${name} names "${state.variables[name]}", which does not exist`;
    const remedy = `Correct or unset ${name}`;
    return { code: "file-missing", severity: "error", what, remedy, keys: [], fix: `unset ${name}` };
  });
  return [...plain, ...named];
}

/** A cache without a limit of its own should find some room. */
const LEAST_FREE = 2 * 1024 ** 3;

export function diskFindings({ needs, state }: CheckedLaunch): Finding[] {
  return state.disks.flatMap((disk, i): Finding[] => {
    const need = needs.disks[i];
    if (need === undefined) return [];
    if (disk.problem !== undefined) {
      const what = `${need.what} cannot be kept in "${disk.dir}": ${disk.problem}`;
      const base = { code: "disk-unwritable", severity: "error", what, keys: need.keys } as const;
      if (disk.wantsRights !== true) return [{ ...base, remedy: "Name another folder" }];
      // Whoever may not write the parent may not make the folder in it either.
      const fix = `sudo install -d -o "$(id -un)" ${shellWord(disk.dir)}`;
      return [{ ...base, remedy: "Give it the rights, or name another folder", fix }];
    }
    if (disk.freeBytes === undefined || disk.freeBytes >= Math.max(need.bytes, LEAST_FREE)) return [];
    const severity = need.bytes > 0 ? "error" : "warning";
    const what = `${need.what} has ${gib(disk.freeBytes)} free in "${disk.dir}"`;
    const remedy =
      need.bytes > 0
        ? "Lower its size, or name a folder on another disk"
        : "Free some, or name a folder on another disk";
    return [{ code: "disk-space", severity, what, remedy, keys: need.keys }];
  });
}

/** Memory that transfer libraries share and lock. */
export function transferFindings({ needs }: CheckedLaunch, host: HostState): Finding[] {
  const found: Finding[] = [];
  const { sharedMemoryBytes: shm } = host;
  if (needs.sharedMemoryBytes > 0 && shm !== undefined && shm < needs.sharedMemoryBytes) {
    found.push({
      code: "shared-memory",
      severity: "warning",
      what: `/dev/shm has ${gib(shm)}, and ranks and transfer libraries want at least ${gib(needs.sharedMemoryBytes)} there`,
      remedy: "Start the container with --shm-size or --ipc=host, or enlarge the mount",
      keys: [],
      fix: `sudo mount -o remount,size=${Math.ceil(needs.sharedMemoryBytes / 1024 ** 3) * 8}G /dev/shm`,
    });
  }
  const { lockedMemoryBytes: locked } = host;
  if (needs.locksMemory && host.hasRdma && locked !== undefined && locked !== Number.POSITIVE_INFINITY) {
    found.push({
      code: "locked-memory",
      severity: "warning",
      what: `at most ${gib(locked)} may be locked, and NIXL and UCX register all KV memory with the network card`,
      remedy: "Set LimitMEMLOCK=infinity in the unit, or --ulimit memlock=-1 for the container",
      keys: [],
      // The soft limit is raised by engines themselves; the hard one only by root.
      fix: "sudo prlimit --pid $$ --memlock=unlimited:unlimited",
    });
  }
  return found;
}

/** Variables that the engine does not stand. */
export function variableFindings({ needs, state }: CheckedLaunch): Finding[] {
  return needs.refusedVariables.flatMap(({ name, pattern, what }): Finding[] => {
    const value = state.variables[name];
    if (value === undefined || !value.includes(pattern)) return [];
    const remedy = `Remove ${pattern} from ${name}`;
    return [
      {
        code: "variable-refused",
        severity: "error",
        what: `${name}=${value}: ${what}`,
        remedy,
        keys: [],
        fix: `unset ${name}`,
      },
    ];
  });
}
