import { describe, expect, it } from "vitest";
import { AnswerTimer } from "./answer-timer.ts";
import { handClock } from "./testing/hand-clock.ts";

function rig(firstMs: number, stallMs: number) {
  const clock = handClock();
  const said: string[] = [];
  const timer = new AnswerTimer(clock, { ms: firstMs, key: "first_token_timeout" }, stallMs, (m) => void said.push(m));
  return { clock, said, timer };
}

describe("AnswerTimer", () => {
  it("tells when the first sign does not come, naming the key", async () => {
    const { clock, said } = rig(10_000, 5_000);
    await clock.pass(9_999);
    expect(said).toEqual([]);
    await clock.pass(1);
    expect(said).toEqual(["no answer within 10 s (first_token_timeout)"]);
  });

  it("from the first sign on the silence counts, however long it is all in all", async () => {
    const { clock, said, timer } = rig(10_000, 5_000);
    for (let i = 0; i < 10; i++) {
      await clock.pass(4_000);
      timer.heard();
    }
    expect(said).toEqual([]);
    await clock.pass(4_990);
    expect(said).toEqual([]);
    await clock.pass(10);
    expect(said).toEqual(["its stream stalled for 5 s (stall_timeout)"]);
  });

  it("time in which the client takes nothing does not count", async () => {
    const { clock, said, timer } = rig(10_000, 5_000);
    timer.heard();
    timer.pause();
    for (let i = 0; i < 10; i++) await clock.pass(5_000);
    timer.resume();
    await clock.pass(4_000);
    expect(said).toEqual([]);
    await clock.pass(1_000);
    expect(said).toHaveLength(1);
  });

  it("a timer that fires late lets what came meanwhile be read first", () => {
    let now = 0;
    const timers: { readonly at: number; readonly fn: () => void }[] = [];
    const clock = {
      now: () => now,
      wall: () => now,
      after(ms: number, fn: () => void) {
        timers.push({ at: now + ms, fn });
        return () => {};
      },
    };
    const said: string[] = [];
    const timer = new AnswerTimer(clock, { ms: 1_000, key: "first_token_timeout" }, 5_000, (m) => void said.push(m));
    timer.heard();
    now = 60_000;
    timers.at(-1)?.fn();
    expect(said).toEqual([]);
    timer.heard();
    now = 61_000;
    timers.at(-1)?.fn();
    expect([said, timers.at(-1)?.at]).toEqual([[], 65_000]);
    now = 90_000;
    timers.at(-1)?.fn();
    now = 91_000;
    timers.at(-1)?.fn();
    expect(said).toEqual(["its stream stalled for 5 s (stall_timeout)"]);
  });

  it("0 is no limit, and nothing is told after its end", async () => {
    const forever = rig(0, 0);
    forever.timer.heard();
    await forever.clock.pass(1e9);
    const stopped = rig(10, 10);
    stopped.timer.stop();
    await stopped.clock.pass(1e9);
    expect([forever.said, stopped.said]).toEqual([[], []]);
  });
});
