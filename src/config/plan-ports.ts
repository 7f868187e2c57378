import type { LaunchPlan, PlanPort } from "../core/launch-plan.ts";

/** Ports that a plan dials and does not open: those of another engine. */
const DIALLED: ReadonlySet<string> = new Set(["prefill-bootstrap"]);

/** Two ports of one host that cannot both be opened. */
export interface PortClash {
  readonly port: number;
  /** Which plan opens it first, and as what. */
  readonly first: { readonly index: number; readonly name: string };
  readonly second: { readonly index: number; readonly name: string };
}

/**
 * Ports that more than one plan of a host opens, or one plan twice: written ones (`lmcache.port`, a user's own
 * `--kv-events-config`), since the allotted ones are apart. One clash a pair of port entries.
 */
export function portClashes(plans: readonly Pick<LaunchPlan, "ports">[]): PortClash[] {
  const opened: { readonly index: number; readonly port: PlanPort }[] = [];
  const clashes: PortClash[] = [];
  for (const [index, plan] of plans.entries()) {
    for (const port of plan.ports) {
      if (DIALLED.has(port.name)) continue;
      const other = opened.find((each) => overlap(each.port, port));
      if (other === undefined) opened.push({ index, port });
      else {
        clashes.push({
          port: Math.max(other.port.port, port.port),
          first: { index: other.index, name: other.port.name },
          second: { index, name: port.name },
        });
      }
    }
  }
  return clashes;
}

function overlap(a: PlanPort, b: PlanPort): boolean {
  return a.port < b.port + (b.count ?? 1) && b.port < a.port + (a.count ?? 1);
}
