import { describe, expect, it } from "vitest";
import { StallWatch } from "./stall-watch.ts";

const MINUTE = 60_000;
const looked = (watch: StallWatch, looks: readonly (readonly [number, number, number] | undefined)[]) =>
  looks.map((look, i) => {
    const [running, progress] = look ?? [];
    const figures = look === undefined ? undefined : { running: running!, progress: progress! };
    return watch.look(figures, look?.[2] ?? i * MINUTE);
  });

describe("StallWatch", () => {
  it("look() finds requests without progress for the whole time, and its end", () => {
    const watch = new StallWatch(5 * MINUTE);
    const said = looked(watch, [
      [3, 100, 0],
      [3, 120, MINUTE],
      [3, 120, 5 * MINUTE],
      [3, 120, 6 * MINUTE],
      [2, 121, 7 * MINUTE],
    ]);
    expect(said).toEqual([
      undefined,
      undefined,
      undefined,
      "stalled: 3 requests on it and nothing computed for 5m",
      undefined,
    ]);
  });

  it("look() says nothing of an idle engine, one without counters, and one whose metrics never answered", () => {
    expect(
      looked(new StallWatch(MINUTE), [
        [0, 5, 0],
        [0, 5, 9 * MINUTE],
        [1, 5, 9.5 * MINUTE],
      ]),
    ).toEqual([undefined, undefined, undefined]);
    const mute = new StallWatch(MINUTE);
    expect([0, 3, 9].map((at) => mute.look({ running: 4 }, at * MINUTE))).toEqual([undefined, undefined, undefined]);
    expect(looked(new StallWatch(MINUTE), [undefined, undefined, undefined])).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  });

  it("look() takes metrics that are not answered any more for a stall", () => {
    const watch = new StallWatch(2 * MINUTE);
    expect(looked(watch, [[1, 5, 0], undefined, undefined, [1, 6, 3 * MINUTE]])).toEqual([
      undefined,
      undefined,
      "stalled: its metrics have not been answered for 2m",
      undefined,
    ]);
  });

  it("isDue() each half minute at most, at once in a stall, and never with 0", () => {
    const watch = new StallWatch(5 * MINUTE);
    expect(watch.isDue(0)).toBe(true);
    watch.look({ running: 1, progress: 1 }, 0);
    expect([watch.isDue(29_000), watch.isDue(30_000)]).toEqual([false, true]);
    watch.look({ running: 1, progress: 1 }, 5 * MINUTE);
    expect(watch.isDue(5 * MINUTE + 1)).toBe(true);
    watch.reset();
    expect(watch.look({ running: 1, progress: 1 }, 20 * MINUTE)).toBeUndefined();
    expect(new StallWatch(0).isDue(0)).toBe(false);
  });
});
