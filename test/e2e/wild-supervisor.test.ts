import { expect, it } from "vitest";
import { runWild } from "../../src/process/testing/wild-run.ts";

// Ten of the seeds of `npm run test:supervisor`: real processes that ignore SIGTERM, die, answer late, leak children and fill their
// logs. What such a run must never show stands in wild-run.ts.
it("a supervisor never has two processes for a slot, leaves none behind, and admits none that is not ready", async () => {
  const work = async (seeds: readonly number[]): Promise<string[]> => {
    const found: string[] = [];
    for (const seed of seeds) {
      const { violations } = await runWild(seed, 1_500);
      found.push(...violations.map((each) => `seed ${seed}: ${each}`));
    }
    return found;
  };
  const lanes = [1, 2, 3, 4, 5].map((lane) => work([lane * 2 - 1, lane * 2]));
  expect((await Promise.all(lanes)).flat()).toEqual([]);
}, 60_000);
