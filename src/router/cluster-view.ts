import type { Membership } from "../core/membership.ts";
import type { SharedTuning } from "./shared-tuning.ts";

/** For `/readyz`: is what this router knows of the cluster what its source says now? Without it routing goes on with who is known. */
export function clusterHealth(membership: Membership): object {
  const { ok, reason, source } = membership.health();
  return { source, ok, ...(reason === "" ? {} : { reason }) };
}

/** For `/v1/cgn/status`: with the daemons that are known, and marks of nodes. */
export function clusterStatus(membership: Membership, tuning: SharedTuning): object {
  const problems = tuning.problems();
  return {
    ...clusterHealth(membership),
    members: membership.list(),
    marks: Object.fromEntries(membership.marks()),
    // These win over each router's file, but for those that this router does not understand.
    shared: Object.fromEntries(membership.shared?.values() ?? []),
    ...(problems.length === 0 ? {} : { sharedProblems: problems }),
  };
}
