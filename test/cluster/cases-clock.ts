import { LEASE_MS } from "./daemons.ts";
import type { Verdict } from "./judge.ts";
import { startLoad } from "./load.ts";
import type { Host } from "./network.ts";
import { pause, seconds, type World } from "./world.ts";

const RATE = { perSecond: 6 } as const;
const HOUR_MS = 3_600_000;

const isWhole = ({ ready }: { readonly ready: number }): boolean => ready === 3;

/**
 * Wall clocks that are wrong: a host an hour ahead, a kvcached an hour behind, a router a day ahead. Nothing may follow. Then the first
 * host is found dead as any other, and comes back with its clock two hours behind what it had been.
 */
export async function skewedClocks(world: World, verdict: Verdict): Promise<void> {
  const [h1, h2] = world.engines as [Host, Host, Host];
  const [r1, r2] = world.routers as [Host, Host];
  // In order, so that nothing of this is itself a failure; the engine is started anew with its host's clock.
  h1.killAll();
  await world.stop(h2, "kvcached");
  await world.stop(r2, "router");
  await world.when(`${h1.name} off`, [r1], ({ workers }) => workers === 2);
  world.startEtcd(h1);
  world.start(h1, "kvcached", { skewMs: HOUR_MS });
  world.start(h1, "agent", { skewMs: HOUR_MS });
  world.start(h2, "kvcached", { skewMs: -HOUR_MS });
  world.start(r2, "router", { skewMs: 24 * HOUR_MS });
  await world.when("three engines", world.routers, isWhole);
  const load = startLoad(world.routerPlans, RATE);
  const watch = world.watchReady(world.routers);
  await pause(LEASE_MS + 2_000);
  const fewest = await watch.stop();
  verdict.must(fewest === 3, `a router had ${fewest} engines while clocks were wrong`);
  const since = performance.now();
  const deadAt = Date.now();
  h1.cable(false);
  h1.killAll();
  const off = await world.when(`${h1.name} off`, world.routers, ({ workers }) => workers === 2, { since });
  verdict.answered(await load.stop(), { mayCut: [h1.name] });
  // Decisions of the other router have its own clock.
  const until = Date.now();
  await verdict.routedAway([world.plan(r1)], h1.name, { deadAt, until, leaseMs: LEASE_MS });
  h1.cable(true);
  world.startEtcd(h1);
  await pause(1_000);
  const back = performance.now();
  world.start(h1, "kvcached", { skewMs: -HOUR_MS });
  world.start(h1, "agent", { skewMs: -HOUR_MS });
  const again = await world.when("three again", world.routers, isWhole, { since: back });
  // Of the chats so far the other two have the prefixes.
  const after = startLoad(world.routerPlans, { ...RATE, newChats: "After its return" });
  await pause(3_000);
  const sent = await after.stop();
  const there = sent.filter(({ node }) => node === h1.name).length;
  verdict.note({ off_the_list_s: seconds(off), back_two_hours_earlier_s: seconds(again), answered_by_it_then: there });
  verdict.must(
    sent.every(({ end }) => end === "ok"),
    "a request failed after it came back",
  );
  verdict.must(there > 0, "it got no request after it came back");
}
