import type { Problem } from "../../core/errors.ts";
import { isWildcardHost } from "../address.ts";
import { MAX_TRANSFER_RANKS, sidePort } from "../side-ports.ts";
import { EXTRA_ARGS_PATH, envPart, joinParts, type PlanPart, type VllmLaunch } from "./vllm-context.ts";

const SOURCE = "vLLM's NIXL connector, nixl/base_scheduler.py, 0.32.0";

/** What an engine with a NixlConnector needs besides it: the side channel on which peers ask for its memory layout. */
export function nixlPart(launch: VllmLaunch): PlanPart {
  const { slot } = launch.input;
  const port = sidePort(slot, "nixlSideChannel");
  return joinParts([
    envPart(
      "VLLM_NIXL_SIDE_CHANNEL_HOST",
      slot.peerAddress,
      "Bound, and told to peers word for word: an address they reach. Loopback only when all peers are on this host",
      SOURCE,
    ),
    envPart("VLLM_NIXL_SIDE_CHANNEL_PORT", String(port), "Own port; data-parallel rank N takes this + N", SOURCE),
    {
      ports: [{ name: "nixl-side-channel", port, ...(launch.dpSize > 1 ? { count: launch.dpSize } : {}) }],
      requires: [{ what: "python package", name: "nixl", range: ">=1.3.2" }],
      problems: nixlProblems(launch),
    },
  ]);
}

function nixlProblems(launch: VllmLaunch): Problem[] {
  const { slot } = launch.input;
  const problems: Problem[] = [];
  if (isWildcardHost(slot.peerAddress)) {
    problems.push({
      severity: "error",
      path: "agent.peer_address",
      problem: `"${slot.peerAddress}" is no address that prefill and decode peers can dial`,
      remedy: "Write an address of this host that they reach in [agent].peer_address",
    });
  }
  if (launch.dpSize > MAX_TRANSFER_RANKS) {
    problems.push({
      severity: "error",
      path: EXTRA_ARGS_PATH,
      problem: `${launch.dpSize} data-parallel ranks need more side channel ports than the ${MAX_TRANSFER_RANKS} of an engine`,
      remedy: `Run engines of at most ${MAX_TRANSFER_RANKS} data-parallel ranks each`,
    });
  }
  return problems;
}
