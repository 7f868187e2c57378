import type { Finding } from "../../core/findings.ts";
import type { MemoryNeed } from "../../core/host-needs.ts";
import { gib } from "./finding-text.ts";
import type { CheckedLaunch } from "./findings.ts";
import type { HostState } from "./host-state.ts";

/** What only shows when all launches of a host are added up. Pure. `launch` is the one with the largest part. */
export function sharedFindings(
  launches: readonly CheckedLaunch[],
  host: HostState,
): { readonly launch: number; readonly finding: Finding }[] {
  const all = launches.flatMap(({ name, needs, state }, launch) =>
    needs.memory.map((need) => ({ name, launch, need, isTaken: state.runningPid !== undefined })),
  );
  const total = all.reduce((sum, { need }) => sum + need.bytes, 0);
  const largest = all.reduce<(typeof all)[number] | undefined>(
    (most, each) => (each.need.bytes > (most?.need.bytes ?? 0) ? each : most),
    undefined,
  );
  if (largest === undefined) return [];
  const has = host.cgroupBytes ?? host.memoryBytes;
  const where = host.cgroupBytes === undefined ? "this host has" : "the cgroup (container) that cgn runs in may use";
  const parts = all.map(({ name, need }) => `${need.what} of ${name}`).join(", ");
  // What runs already has its part.
  const free =
    (host.availableBytes ?? Number.POSITIVE_INFINITY) +
    all.reduce((sum, { need, isTaken }) => sum + (isTaken ? need.bytes : 0), 0);
  const finding = memoryFinding(total, has, free, where, parts, largest.need);
  return finding === undefined ? [] : [{ launch: largest.launch, finding }];
}

function memoryFinding(
  total: number,
  has: number | undefined,
  available: number,
  where: string,
  parts: string,
  { keys }: MemoryNeed,
): Finding | undefined {
  const base = { code: "host-memory", keys } as const;
  if (has !== undefined && total > has) {
    const what = `${gib(total)} of memory are asked for and ${where} ${gib(has)}: ${parts}`;
    return {
      ...base,
      severity: "error",
      what,
      remedy: `Lower the sizes to ${gib(has)} in all, less what engines need besides`,
    };
  }
  if (total <= available) return undefined;
  const what = `${gib(total)} of memory are asked for and ${gib(available)} are free now: ${parts}`;
  return { ...base, severity: "warning", what, remedy: "Lower the sizes, or end what holds the rest" };
}
