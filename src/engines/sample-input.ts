import type { EngineSlot, LaunchInput, ModelSpec } from "./engine.ts";

/** An engine's place that no real host has: what the cells of the table are rendered for. */
export const SAMPLE_SLOT: EngineSlot = {
  host: "127.0.0.1",
  port: 8000,
  gpus: [2, 3],
  peerAddress: "10.0.0.5",
  sidePortBase: 20_000,
  prefillBootstrapPort: 21_016,
  cores: 16,
  enginesOnHost: 2,
  platform: "cuda",
  stateDir: "/var/lib/cognitora",
};

export const SAMPLE_MODEL: ModelSpec = { name: "org/model", tp: 2, maxModelLen: 8192, extraArgs: [] };

/** A launch input around an engine's options, for tests and for the table. */
export function sampleInput<O>(options: O, over: Partial<LaunchInput<O>> = {}): LaunchInput<O> {
  return {
    options,
    model: SAMPLE_MODEL,
    slot: SAMPLE_SLOT,
    role: "both",
    offload: "none",
    readyTimeoutMs: 120_000,
    drainGraceMs: 30_000,
    ...over,
  };
}
