import { describe, expect, it } from "vitest";
import { ensureRealEngine } from "../../src/cli/demo/real-engine.ts";
import { cacheDir } from "../../src/cli/places.ts";
import { type AlternateFigures, alternate } from "./alternate.ts";

function expectWell(figures: AlternateFigures): void {
  expect(figures.failures, JSON.stringify(figures)).toEqual([]);
  expect(figures).toMatchObject({ cut: 0, overlaps: 0, answered: figures.requests });
  expect(figures.loads).toBeGreaterThan(1);
  expect(figures.loads).toBeLessThanOrEqual(figures.mostLoads);
}

describe("two models on one GPU set, asked in turn", () => {
  it("answers all, swaps no more often than the least residency allows, and cuts nothing", async () => {
    expectWell(await alternate({ seconds: 6, clients: 8, minResidencyS: 1, loadS: 0.5 }));
  }, 120_000);

  /** The starter of `npm test` says whether Python and the wheels are there. */
  it.skipIf(process.env["CGN_REAL_ENGINE"] !== "1")(
    "does so with two real llama-servers of a group",
    async () => {
      const engine = await ensureRealEngine(cacheDir(process.env), process.env, new AbortController().signal);
      expectWell(await alternate({ seconds: 4, clients: 4, minResidencyS: 1, engine }));
    },
    120_000,
  );
});
