import { describe, expect, it } from "vitest";
import type { KvEventBatch } from "../core/kv-event.ts";
import {
  DEFAULT_SOURCE_POLICY,
  initialSource,
  type SourceEffect,
  type SourceInput,
  type SourceState,
} from "./source-state.ts";
import { stepSource } from "./source-step.ts";

const batch = (ts: number): KvEventBatch => ({ ts, dpRank: undefined, events: [] });
/** Another run applied messages up to number 9, which has this time. */
const RESUME = { next: 10, lastTs: 109 };

/** Feed inputs one after the other, a millisecond apart. */
function run(inputs: readonly SourceInput[], hasReplay = true) {
  let state: SourceState = initialSource(hasReplay, 0, RESUME);
  const effects: SourceEffect[] = [];
  for (const [i, input] of inputs.entries()) {
    const now = input.type === "tick" ? 60_000 + i : i;
    const [next, ...out] = stepSource(state, input, now, { ...DEFAULT_SOURCE_POLICY, silentMs: 1e9 });
    state = next;
    effects.push(...out);
  }
  const applied = effects.flatMap((effect) => (effect.do === "apply" ? [effect.seq] : []));
  const cleared = effects.flatMap((effect) => (effect.do === "clear" ? [effect.why] : []));
  return { state, applied, cleared, asked: effects.filter((effect) => effect.do === "request-replay") };
}

const reply = (seq: number, ts = 100 + seq): SourceInput => ({ type: "reply", request: 1, seq, batch: batch(ts) });
const live = (seq: number, ts = 100 + seq): SourceInput => ({ type: "live", seq, batch: batch(ts) });
const END: SourceInput = { type: "replay-end", request: 1 };

describe("stepSource with what another run held", () => {
  it("stepSource() believes it once the engine tells the last known message again, and goes on behind it", () => {
    const { state, applied, cleared, asked } = run([{ type: "connected" }, reply(9), reply(10), reply(11), END]);
    expect(asked).toEqual([{ do: "request-replay", request: 1, from: 9 }]);
    expect(cleared).toEqual([]);
    expect(applied).toEqual([10, 11]);
    expect(state).toMatchObject({ proving: false, holding: true, at: "live" });
  });

  it("stepSource() applies nothing before the proof, whatever comes live", () => {
    const before = run([{ type: "connected" }, live(10), live(11)]);
    expect(before.applied).toEqual([]);
    expect(before.state.proving).toBe(true);
    expect(run([{ type: "connected" }, live(10), reply(9), END]).applied).toEqual([10]);
    expect(run([live(10)]).applied).toEqual([]);
  });

  it("stepSource() drops it when another process answers", () => {
    const { state, cleared } = run([{ type: "connected" }, reply(9, 5_000)]);
    expect(cleared).toHaveLength(1);
    expect(state.proving).toBe(false);
  });

  it("stepSource() drops it when the engine's buffer begins behind the proof, though nothing would be missing", () => {
    const { state, cleared, applied } = run([{ type: "connected" }, reply(10), reply(11), END]);
    expect(cleared).toEqual([expect.stringContaining("what a snapshot said is dropped")]);
    expect(applied).toEqual([10, 11]);
    expect(state.proving).toBe(false);
  });

  it("stepSource() drops it when the engine knows nothing, or does not answer", () => {
    for (const inputs of [
      [{ type: "connected" }, END],
      [{ type: "connected" }, { type: "tick" }],
    ] as SourceInput[][]) {
      const { state, cleared } = run(inputs);
      expect(cleared).toHaveLength(1);
      expect(state).toMatchObject({ proving: false, holding: false });
    }
  });

  it("stepSource() drops it when the agent says that the engine was emptied", () => {
    for (const what of ["restarted", "reset"] as const) {
      expect(run([{ type: "notice", what }]).state).toMatchObject({ proving: false, holding: false });
    }
  });

  it("stepSource() waits for the proof through lost connections", () => {
    const { state, cleared } = run([{ type: "connected" }, { type: "disconnected" }, { type: "connected" }]);
    expect(cleared).toEqual([]);
    expect(state.proving).toBe(true);
  });

  it("initialSource() holds nothing where no replay could prove it", () => {
    expect(initialSource(false, 0, RESUME)).toMatchObject({ holding: false, proving: false, next: 0 });
  });
});
