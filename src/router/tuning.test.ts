import { describe, expect, it } from "vitest";
import { Admissions } from "./admit.ts";
import { handClock } from "./testing/hand-clock.ts";
import { type TunedSettings, Tuning } from "./tuning.ts";

const settings = (over: Partial<TunedSettings> = {}): TunedSettings => ({
  policy: "ttft",
  scoreWeights: { kv: 1, load: 0, power: 0, capacity: 0 },
  admission: {},
  ...over,
});

describe("Tuning", () => {
  it("retune() holds from the next question on, and keeps a policy's turn by model", () => {
    const tuning = new Tuning(settings({ policy: "round_robin" }));
    expect(tuning.policy("m")).toBe(tuning.policy("m"));
    expect(tuning.policy("m")).not.toBe(tuning.policy("n"));
    const admissions = new Admissions({}, handClock());
    tuning.retune(
      settings({ policy: "least_loaded", admission: { maxConcurrentPerReplica: 3, ttftSloMs: 9 } }),
      admissions,
    );
    expect([tuning.policy("m").name, tuning.perReplica, tuning.ttftSloMs]).toEqual(["least_loaded", 3, 9]);
  });

  it("refuses a policy that there is not, at the start and later, and goes on as before", () => {
    expect(() => new Tuning(settings({ policy: "best" }))).toThrow(/"best" is no routing policy/);
    const tuning = new Tuning(settings());
    expect(() => tuning.retune(settings({ policy: "best" }), new Admissions({}, handClock()))).toThrow(/no routing/);
    expect(tuning.policy("m").name).toBe("ttft");
  });
});
