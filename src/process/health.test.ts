import { describe, expect, it } from "vitest";
import { Health, type Verdict } from "./health.ts";

/** Judge answers that come 3.5 s apart, each asked 3 s before; the events that follow. */
function judged(verdicts: readonly Verdict[], loading = false) {
  const health = new Health();
  return verdicts.map((verdict, i) => health.judge(verdict, loading, i * 3_500, i * 3_500 + 3_000));
}

const events = (verdicts: readonly Verdict[], loading = false) =>
  judged(verdicts, loading).map((found) => found?.event ?? "-");

describe("Health", () => {
  it("judge() takes three looks without an answer for a hang, and says for how long", () => {
    // Broke: an engine that answered nothing any more stayed ready for ever.
    expect(events(["silent", "silent", "silent", "silent", "ready"])).toEqual([
      "-",
      "-",
      "probe-hung",
      "probe-hung",
      "probe-ok",
    ]);
    expect(judged(["silent", "silent", "silent"])[2]?.why).toBe("hung: no answer to its health probe for 10 s");
  });

  it("judge() begins anew after any answer, and learns nothing from a look that could not be made", () => {
    expect(events(["silent", "silent", "ready", "silent", "silent"])).toEqual(["-", "-", "probe-ok", "-", "-"]);
    expect(events(["silent", "silent", "unasked", "unasked", "silent"]).at(-1)).toBe("probe-hung");
    expect(events(["unasked", "unasked", "unasked"])).toEqual(["-", "-", "-"]);
  });

  it("judge() gives a running engine a second look, and takes a loading one at its word", () => {
    expect(events(["failed", "failed"])).toEqual(["-", "probe-bad"]);
    expect(events(["loading", "ready", "loading"])).toEqual(["-", "probe-ok", "-"]);
    expect(events(["loading", "loading", "failed"], true)).toEqual(["-", "-", "probe-bad"]);
  });
});
