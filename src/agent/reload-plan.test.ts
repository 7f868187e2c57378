import { describe, expect, it } from "vitest";
import type { EngineSettings } from "../config/settings.ts";
import { workerId } from "../core/ids.ts";
import { findEngine } from "../engines/registry.ts";
import { fakePlan } from "../process/testing/harness.ts";
import type { ManagedEngine } from "./engine-keeper.ts";
import type { AgentEngine } from "./managed-engine.ts";
import { laterChanges, planReload } from "./reload-plan.ts";

/** Settings of a vLLM on a port; its model's extra_args are the command's. */
function settings(port: number, words: readonly string[] = [], over: Partial<EngineSettings> = {}): EngineSettings {
  return {
    nodeId: "n",
    kind: "vllm",
    url: `http://127.0.0.1:${port}`,
    kvOffload: "none",
    role: "both",
    spawn: true,
    model: { name: `m${port}`, tp: 1, extraArgs: words },
    slot: {
      host: "127.0.0.1",
      port,
      peerAddress: "127.0.0.1",
      sidePortBase: 20_000 + port,
      cores: 8,
      enginesOnHost: 1,
      indexOnHost: 0,
      platform: "unknown",
      stateDir: "state",
    },
    options: findEngine("vllm").schema.parse({}),
    readyTimeoutMs: 1_000,
    drainGraceMs: 1_000,
    stallMs: 0,
    env: {},
    inheritEnv: true,
    startAfter: [],
    shareGpus: false,
    path: ["engine"],
    ...over,
  };
}

const planOf = (each: EngineSettings) => fakePlan(each.slot.port, each.model.extraArgs, { env: each.env });
const engineOf = (each: EngineSettings) => findEngine(each.kind);

function running(id: string, each: EngineSettings): AgentEngine {
  return { id: workerId(id), settings: each, engine: engineOf(each), plan: planOf(each), keeper: {} as ManagedEngine };
}

const plan = (old: readonly AgentEngine[], next: readonly EngineSettings[]) => planReload(old, next, engineOf, planOf);

describe("planReload()", () => {
  it("tells what of a command changed, and never the value of a secret", () => {
    const old = running("n/m1", settings(1, ["--max-model-len", "4096", "--api-key", "old", "--gone"]));
    const next = settings(1, ["--max-model-len", "8192", "--api-key", "new", "--eager"], {
      env: { HF_TOKEN: "secret" },
      stallMs: 5,
    });
    expect(plan([old], [next]).replaced[0]?.changes).toEqual([
      "--max-model-len 4096 → 8192",
      "--api-key",
      "- --gone",
      "+ --eager",
      "env.HF_TOKEN",
      "stall_timeout",
    ]);
  });

  // A secret in one word with its flag was told as it is.
  it("tells no secret that is written as --flag=value", () => {
    const old = running("n/m1", settings(1, ["--api-key=old", "--max-model-len=1"]));
    expect(plan([old], [settings(1, ["--api-key=new", "--max-model-len=2"])]).replaced[0]?.changes).toEqual([
      "--api-key",
      "--max-model-len 1 → 2",
    ]);
  });

  it("takes more engines on the host, another place in the file and another node name for no change", () => {
    const old = running("n/m1", settings(1));
    const moved = settings(1, [], {
      nodeId: "n-1",
      slot: { ...settings(1).slot, enginesOnHost: 2, indexOnHost: 1, cores: 4 },
    });
    const { untouched, replaced, added, removed } = plan([old], [settings(2), moved]);
    expect([untouched.map(({ old: { id } }) => id), replaced, removed]).toEqual([["n/m1"], [], []]);
    expect(added.map(({ id }) => id)).toEqual(["n/m2"]);
  });

  it("gives a new engine no name that one has which stays", () => {
    const old = running("n/x", settings(1, [], { model: { name: "x", tp: 1, extraArgs: [] } }));
    const twin = settings(2, [], { model: { name: "x", tp: 1, extraArgs: [] } });
    const ids = plan([old], [twin, old.settings]).added.map(({ id }) => id);
    expect(ids).toEqual(["n/x~2"]);
  });

  it("restarts one whose GPUs changed, and ends one that is gone", () => {
    const gpus = (...list: number[]) => settings(1, [], { env: { CUDA_VISIBLE_DEVICES: list.join(",") } });
    const { replaced, removed } = plan([running("n/m1", gpus(0)), running("n/m2", settings(2))], [gpus(1)]);
    expect(replaced.map(({ changes }) => changes)).toEqual([["env.CUDA_VISIBLE_DEVICES"]]);
    expect(removed.map(({ id }) => id)).toEqual(["n/m2"]);
  });
});

it("laterChanges() names the agent's keys that wait for its next start", () => {
  const agent = { listen: { host: "a", port: 1 }, heartbeatMs: 1, logDir: "x" } as never;
  expect(laterChanges(agent, { ...(agent as object), heartbeatMs: 2 } as never)).toEqual(["agent.heartbeat"]);
});
