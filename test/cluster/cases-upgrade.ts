import type { Verdict } from "./judge.ts";
import { startLoad } from "./load.ts";
import { pause, seconds, type World } from "./world.ts";

const isWhole = ({ ready }: { readonly ready: number }): boolean => ready === 3;

/**
 * Every agent, kvcached and router is ended in order and started anew, one after the other, while clients with the addresses of both
 * routers go on. Engines outlive their agents.
 */
export async function rollingRestart(world: World, verdict: Verdict): Promise<void> {
  const load = startLoad(world.routerPlans, { perSecond: 6, turns: true });
  const took: Record<string, number[]> = { kvcached: [], agent: [], router: [] };
  const since = performance.now();
  for (const kind of ["kvcached", "agent", "router"] as const) {
    for (const host of kind === "router" ? world.routers : world.engines) {
      const before = performance.now();
      const code = await world.stop(host, kind);
      verdict.must(code === 0, `${kind} of ${host.name} ended with ${code}`);
      world.start(host, kind);
      await world.whenUp(host, kind);
      await world.when("three engines", world.routers, isWhole);
      took[kind]!.push(performance.now() - before);
    }
  }
  await pause(1_000);
  verdict.answered(await load.stop());
  verdict.note({
    whole_s: seconds(performance.now() - since),
    ...Object.fromEntries(Object.entries(took).map(([kind, all]) => [`${kind}_s`, seconds(Math.max(...all))])),
  });
}
