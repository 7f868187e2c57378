import { runCgn } from "../helpers/cgn-process.ts";
import { askAdmin, LEASE_MS } from "./daemons.ts";
import type { Verdict } from "./judge.ts";
import { startLoad } from "./load.ts";
import { pause, seconds, type World } from "./world.ts";

const RATE = { perSecond: 6 } as const;

/** The member of etcd that leads is killed: nothing changes, and marks are kept again soon. */
export async function loseEtcdMember(world: World, verdict: Verdict): Promise<void> {
  const leader = await leaderOf(world);
  const load = startLoad(world.routerPlans, RATE);
  const watch = world.watchReady(world.routers);
  const since = performance.now();
  await world.etcds.get(leader)!.kill();
  const wrote = await firstWrite(world, since);
  await pause(Math.max(0, LEASE_MS + 2_000 - (performance.now() - since)));
  const fewest = await watch.stop();
  verdict.answered(await load.stop());
  verdict.note({ takes_writes_again_s: seconds(wrote), fewest_engines_listed: fewest });
  verdict.must(fewest === 3, `a router had ${fewest} engines meanwhile`);
  world.startEtcd(leader);
}

async function leaderOf(world: World) {
  for (const host of world.engines) {
    const answer = await fetch(`${world.etcds.get(host)!.url}/v3/maintenance/status`, { method: "POST", body: "{}" });
    const { leader, header } = (await answer.json()) as { leader: string; header: { member_id: string } };
    if (leader === header.member_id) return host;
  }
  return world.engines[0]!;
}

/** Until etcd takes a write again: a mark that is not there is taken back, which changes nothing. */
async function firstWrite(world: World, since: number): Promise<number> {
  const [one] = world.routerPlans;
  const id = world.engines[2]!.name;
  for (;;) {
    try {
      await askAdmin(one!, `/v1/cgn/nodes/${id}/uncordon`, "POST");
      return performance.now() - since;
    } catch (error) {
      if (performance.now() - since > 60_000) throw error;
      await pause(200);
    }
  }
}

/** All members of etcd are killed, and come back with what they had. */
export async function loseEtcd(world: World, verdict: Verdict): Promise<void> {
  const load = startLoad(world.routerPlans, RATE);
  const watch = world.watchReady(world.routers);
  const since = performance.now();
  for (const etcd of world.etcds.values()) await etcd.kill();
  const said = await world.when("the loss is said", world.routers, ({ cluster }) => !cluster.ok, { since });
  const status = await statusText(world);
  await pause(Math.max(0, 2 * LEASE_MS - (performance.now() - since)));
  const fewest = await watch.stop();
  verdict.answered(await load.stop());
  const back = performance.now();
  for (const host of world.etcds.keys()) world.startEtcd(host);
  const isWell = ({ cluster, ready }: { readonly cluster: { readonly ok: boolean }; readonly ready: number }) =>
    cluster.ok && ready === 3;
  const again = await world.when("etcd again", world.routers, isWell, { since: back });
  verdict.note({
    said_after_s: seconds(said),
    fewest_engines_listed: fewest,
    well_after_its_start_s: seconds(again),
    cgn_status_says: /^! .*is lost.*$/m.exec(status)?.[0],
  });
  verdict.must(fewest === 3, `a router had ${fewest} engines meanwhile`);
  verdict.must(/^! etcd .* is lost/m.test(status), `cgn status does not say that etcd is lost:\n${status}`);
  verdict.must(
    / 3 agents {2}3 kvcacheds {2}2 routers/.test(status),
    `cgn status does not list who is known:\n${status}`,
  );
}

/** What an operator sees. */
async function statusText(world: World): Promise<string> {
  const [one] = world.routerPlans;
  const admin = `http://${one!.address}:${one!.ports.admin}`;
  const { out, err } = await runCgn(["status", "--admin", admin, "--key-file", world.keyFile]);
  return `${out}${err}`;
}
