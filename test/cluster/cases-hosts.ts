import { LEASE_MS } from "./daemons.ts";
import type { Verdict } from "./judge.ts";
import { startLoad } from "./load.ts";
import type { Host } from "./network.ts";
import { pause, seconds, type World } from "./world.ts";

const RATE = { perSecond: 6 } as const;
/** An etcd that has just chosen a leader gives each lease its whole time again, so the list may take two; routing does not wait for it. */
const LISTED_MS = 2 * LEASE_MS + 1_000;

const isWhole = ({ ready }: { readonly ready: number }): boolean => ready === 3;

/** SIGKILL for all of a host's processes and its link down, with its member of etcd; later its return. */
export async function powerOff(world: World, verdict: Verdict): Promise<void> {
  const host = world.engines[2]!;
  const load = startLoad(world.routerPlans, RATE);
  await pause(2_000);
  const since = performance.now();
  const deadAt = Date.now();
  host.cable(false);
  host.killAll();
  const off = await world.when(`${host.name} off`, world.routers, ({ workers }) => workers === 2, { since });
  await pause(3_000);
  verdict.answered(await load.stop(), { mayCut: [host.name] });
  await verdict.routedAway(world.routerPlans, host.name, { deadAt, until: Date.now(), leaseMs: LEASE_MS });
  verdict.note({ off_the_list_s: seconds(off) });
  verdict.must(off < LISTED_MS, `it was listed for ${seconds(off)} s`);
  host.cable(true);
  world.startEtcd(host);
  await pause(1_000);
  const back = performance.now();
  world.start(host, "kvcached");
  world.start(host, "agent");
  const again = await world.when("three again", world.routers, isWhole, { since: back });
  verdict.note({ back_after_start_s: seconds(again) });
}

/** A host's cable is out while its processes live on. */
export async function partitionHost(world: World, verdict: Verdict): Promise<void> {
  const host = world.engines[1]!;
  const load = startLoad(world.routerPlans, RATE);
  await pause(1_000);
  const since = performance.now();
  const deadAt = Date.now();
  host.cable(false);
  const isOut = ({ ready }: { readonly ready: number }): boolean => ready === 2;
  const out = await world.when(`${host.name} out of routing`, world.routers, isOut, { since });
  const off = await world.when(`${host.name} off`, world.routers, ({ workers }) => workers === 2, { since });
  await pause(Math.max(0, 2 * LEASE_MS - (performance.now() - since)));
  const until = Date.now();
  const healed = performance.now();
  host.cable(true);
  const again = await world.when("three again", world.routers, isWhole, { since: healed });
  await pause(1_000);
  verdict.answered(await load.stop(), { mayCut: [host.name] });
  await verdict.routedAway(world.routerPlans, host.name, { deadAt, until, leaseMs: LEASE_MS });
  verdict.note({ out_of_routing_s: seconds(out), off_the_list_s: seconds(off), back_after_healing_s: seconds(again) });
  verdict.must(off < LISTED_MS, `it was listed for ${seconds(off)} s`);
}

/**
 * One router can reach neither the other one nor one of the hosts, through whose kvcached bookings are exchanged; the other router and
 * etcd reach all.
 */
export async function partitionRouters(world: World, verdict: Verdict): Promise<void> {
  const [r1, r2] = world.routers as [Host, Host];
  const host = world.engines[0]!;
  const load = startLoad(world.routerPlans, RATE);
  await pause(1_000);
  const since = performance.now();
  const deadAt = Date.now();
  r1.cut(r2, true);
  r1.cut(host, true);
  const watch = world.watchReady([r2]);
  const out = await world.when(`${host.name} out of routing`, [r1], ({ ready }) => ready === 2, { since });
  await pause(Math.max(0, 2 * LEASE_MS - (performance.now() - since)));
  const until = Date.now();
  const healed = performance.now();
  r1.cut(r2, false);
  r1.cut(host, false);
  const again = await world.when("three again", world.routers, isWhole, { since: healed });
  const fewest = await watch.stop();
  verdict.answered(await load.stop(), { mayCut: [host.name] });
  await verdict.routedAway([world.plan(r1)], host.name, { deadAt, until, leaseMs: LEASE_MS });
  verdict.note({ out_of_routing_s: seconds(out), back_after_healing_s: seconds(again) });
  verdict.must(fewest === 3, `the other router had ${fewest} engines meanwhile`);
}

/** An agent, with its own member of etcd stopped, cannot reach etcd, and routers reach it: it stays. */
export async function agentCutFromEtcd(world: World, verdict: Verdict): Promise<void> {
  const [h1, h2, h3] = world.engines as [Host, Host, Host];
  const load = startLoad(world.routerPlans, RATE);
  const watch = world.watchReady(world.routers);
  const etcd = world.etcds.get(h1)!;
  h1.cut(h2, true);
  h1.cut(h3, true);
  etcd.signal("SIGSTOP");
  await pause(2 * LEASE_MS);
  const fewest = await watch.stop();
  etcd.signal("SIGCONT");
  h1.cut(h2, false);
  h1.cut(h3, false);
  verdict.answered(await load.stop());
  verdict.note({ fewest_engines_listed: fewest });
  verdict.must(fewest === 3, `a router had ${fewest} engines meanwhile`);
}

/** All links of hosts with engines lose packets and are slow. */
export async function badLinks(world: World, verdict: Verdict): Promise<void> {
  const by = world.badBy;
  if (by === undefined) {
    verdict.note({ skipped: "neither netem nor python3 with /dev/net/tun" });
    return;
  }
  const badness = { delayMs: 20, jitterMs: 10, lossPercent: 3 } as const;
  for (const host of world.engines) await host.spoil(badness, by);
  const load = startLoad(world.routerPlans, RATE);
  const watch = world.watchReady(world.routers);
  await pause(2 * LEASE_MS);
  const fewest = await watch.stop();
  const sent = await load.stop();
  for (const host of world.engines) await host.mend();
  verdict.answered(sent);
  verdict.note({ made_by: by, ...badness, fewest_engines_listed: fewest });
  verdict.must(fewest === 3, `a router had ${fewest} engines meanwhile`);
  await world.when("three still", world.routers, isWhole);
}
