import { describe, expect, it } from "vitest";
import { ensureRealEngine } from "../../src/cli/demo/real-engine.ts";
import { cacheDir } from "../../src/cli/places.ts";
import { runCgn } from "../helpers/cgn-process.ts";
import { chat } from "../helpers/up.ts";
import { type AlternateFigures, alternate, withPair } from "./alternate.ts";

function expectWell(figures: AlternateFigures): void {
  expect(figures.failures, JSON.stringify(figures)).toEqual([]);
  expect(figures).toMatchObject({ cut: 0, overlaps: 0, answered: figures.requests });
  expect(figures.loads).toBeGreaterThan(1);
  expect(figures.loads).toBeLessThanOrEqual(figures.mostLoads);
}

describe("two models on one GPU set, asked in turn", () => {
  it("answers all, swaps no more often than the least residency allows, and cuts nothing", async () => {
    expectWell(await alternate({ seconds: 5, clients: 6, minResidencyS: 1, loadS: 0.5 }));
  }, 120_000);

  it("puts engines to sleep where they can, knows that their cache is gone then, and does as cgn load and unload say", async () => {
    await withPair({ minResidencyS: 0, loadS: 0.5, sleep: 2 }, async ({ url, admin, output }) => {
      const messages = [{ role: "user", content: "The same long question, asked again and again. ".repeat(10) }];
      const ask = (model: string) => chat(url, { model, max_tokens: 4, messages });
      const settle = () => new Promise((resolve) => setTimeout(resolve, 300));
      await ask("alpha");
      await settle();
      const warm = await ask("alpha");
      expect(warm.cached, output()).toBeGreaterThan(0);
      await ask("beta");
      const { workers } = (await (await fetch(`${admin}/v1/cgn/status`)).json()) as { workers: { state: string }[] };
      expect(workers.map(({ state }) => state)).toEqual(["asleep", "ready"]);
      const woken = await ask("alpha");
      expect(woken).toMatchObject({ status: 200, predicted: 0, cached: 0 });
      await settle();
      const again = await ask("alpha");
      expect(again.cached).toBe(warm.cached);
      expect(again.predicted).toBe(again.cached);
      const metrics = await (await fetch(`${admin}/metrics`)).text();
      const run = (...args: string[]) => runCgn([...args, "--admin", admin]);
      expect((await run("load", "beta")).out).toMatch(/beta {2}ready/);
      const [unloaded, other] = await Promise.all([run("unload", "beta"), run("load", "gamma")]);
      expect(unloaded.out).toMatch(/beta {2}unloaded {2}asked to unload/);
      expect(other).toMatchObject({ code: 2 });
      expect(other.err).toContain('There is "alpha", "beta"');
      expect(metrics).toMatch(/cgn_agent_engine_loads_total\{worker="[^"]*alpha",how="wake"\} 1/);
    });
  }, 120_000);

  /** The starter of `npm test` says whether Python and the wheels are there. */
  it.skipIf(process.env["CGN_REAL_ENGINE"] !== "1")(
    "does so with two real llama-servers of a group",
    async () => {
      const engine = await ensureRealEngine(cacheDir(process.env), process.env, new AbortController().signal);
      expectWell(await alternate({ seconds: 3, clients: 4, minResidencyS: 1, engine }));
    },
    240_000,
  );
});
