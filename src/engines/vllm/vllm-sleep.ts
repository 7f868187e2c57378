import { isLoopbackHost } from "../address.ts";
import { arg } from "../args.ts";
import type { SleepCalls } from "../engine.ts";
import { envPart, joinParts, type PlanPart, type VllmLaunch } from "./vllm-context.ts";
import type { VllmOptions } from "./vllm-options.ts";

const SOURCE = "vllm/entrypoints/serve/dev/sleep/api_router.py, vLLM 0.32.0";

/**
 * The calls that put vLLM to sleep and wake it. Each answers once it is done. `mode=wait` lets requests that are still there end;
 * releases without that parameter ignore it and cut them.
 *
 * Level 1 keeps the weights in host memory. Level 2 drops them: they are loaded again from disk between the two wake-ups
 * (docs/features/sleep_mode.md of vLLM).
 */
export function vllmSleeps({ sleep: level }: VllmOptions): SleepCalls | undefined {
  if (level === undefined) return undefined;
  const sleep = [{ path: `/sleep?level=${level}&mode=wait` }];
  if (level === 1) return { sleep, wake: [{ path: "/wake_up" }] };
  return {
    sleep,
    wake: [
      { path: "/wake_up?tags=weights" },
      { path: "/collective_rpc", body: JSON.stringify({ method: "reload_weights" }) },
      { path: "/wake_up?tags=kv_cache" },
    ],
  };
}

/** What `sleep` adds to the launch. */
export function sleepPart({ input }: VllmLaunch): PlanPart {
  const { options, slot } = input;
  if (options.sleep === undefined) return {};
  const open = isLoopbackHost(slot.host)
    ? []
    : [
        {
          code: "dev-mode-open",
          message: `sleep opens vLLM's development calls (/sleep, /collective_rpc, …) to everybody who reaches ${slot.host}`,
          remedy: "Let the engine listen on 127.0.0.1 (its url)",
        },
      ];
  return joinParts([
    {
      args: [
        ...arg("--enable-sleep-mode", true, "Weights and KV must be allocated so that they can be given back", SOURCE),
      ],
      warnings: open,
      problems:
        slot.platform === "cpu"
          ? [
              {
                severity: "error",
                path: "engine.vllm.sleep",
                problem: "vLLM cannot sleep on a CPU: it refuses the flag there",
                remedy: "Remove sleep: the engine is then ended and started again",
              },
            ]
          : [],
    },
    envPart("VLLM_SERVER_DEV_MODE", "1", "Without it /sleep and /wake_up are not served", SOURCE),
  ]);
}
