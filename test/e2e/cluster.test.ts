import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask, type HostPlan, hostConfig, type Ready, readyOf, startDaemon } from "../cluster/daemons.ts";
import { type CgnProcess, freePorts, runCgn, scratch, until } from "../helpers/cgn-process.ts";
import { type EtcdProcess, startEtcd, whyNoEtcd } from "../helpers/etcd.ts";

const missing = whyNoEtcd();
if (missing !== undefined) console.log(`skipped: daemons that find each other through etcd (${missing})`);

async function plansOf(names: readonly string[], etcd: string, dir: string): Promise<HostPlan[]> {
  const ports = await freePorts(names.length * 6);
  return names.map((name, n) => {
    const [agent = 0, agentAdmin = 0, kv = 0, engine = 0, http = 0, admin = 0] = ports.slice(n * 6);
    const own = { agent, agentAdmin, kv, engine, http, admin };
    return { name, address: "127.0.0.1", ports: own, etcd: [etcd], dir: join(dir, name) };
  });
}

describe.skipIf(missing !== undefined)("daemons that find each other through etcd", () => {
  const place = scratch();
  let etcd: EtcdProcess;
  let plans: HostPlan[] = [];
  const files = new Map<HostPlan, string>();
  const daemons = new Map<string, CgnProcess>();
  const words = (): string => [...daemons].map(([name, d]) => `--- ${name}\n${d.output()}`).join("\n");
  const start = (plan: HostPlan, kind: "agent" | "kvcached" | "router"): void => {
    daemons.set(`${plan.name} ${kind}`, startDaemon(plan, files.get(plan)!, kind));
  };
  const end = async (plan: HostPlan, kind: string, signal: NodeJS.Signals): Promise<void> => {
    const daemon = daemons.get(`${plan.name} ${kind}`);
    daemon?.child.kill(signal);
    await daemon?.exit;
  };
  const ready = (plan: HostPlan, count: number): Promise<unknown> =>
    until(
      `${count} ready at ${plan.name}`,
      150_000,
      async () => ((await readyOf(plan))?.ready === count ? true : undefined),
      words,
    );

  beforeAll(async () => {
    etcd = await startEtcd();
    plans = await plansOf(["h1", "h2"], etcd.url, place.dir);
    for (const plan of plans) files.set(plan, place.file(`${plan.name}.toml`, hostConfig(plan)));
    const up = async (): Promise<true | undefined> =>
      (await fetch(`${etcd.url}/health`).catch(() => undefined))?.ok === true ? true : undefined;
    await until("etcd", 30_000, up, () => etcd.output());
    const [h1, h2] = plans as [HostPlan, HostPlan];
    start(h1, "router");
    start(h1, "kvcached");
    start(h2, "router");
    start(h1, "agent");
    start(h2, "agent");
    for (const plan of plans) await ready(plan, 2);
  }, 150_000);

  afterAll(async () => {
    for (const daemon of daemons.values()) daemon.child.kill("SIGTERM");
    await Promise.all([...daemons.values()].map((d) => d.exit));
    await etcd.dispose();
    place.dispose();
  }, 60_000);

  it("lets each router route to all engines, and know what they hold", async () => {
    const [h1, h2] = plans as [HostPlan, HostPlan];
    const text = "The archive keeps glass plates and night logs. ".repeat(20);
    const one = await ask(h1, text);
    expect(one, words()).toMatchObject({ status: 200 });
    // The other router learns by the index where the prompt is, also against the load.
    await until("the other's knowledge", 20_000, async () => {
      const two = await ask(h2, text);
      const header = two.node === one.node ? true : undefined;
      return two.status === 200 ? header : undefined;
    });
  }, 60_000);

  it("goes on as before while etcd is away, says so, and hears the rest once it is back", async () => {
    const [h1] = plans as [HostPlan];
    await etcd.kill();
    await until(
      "the loss is said",
      20_000,
      async () => ((await readyOf(h1))?.cluster.ok === false ? true : undefined),
      words,
    );
    expect(await readyOf(h1)).toMatchObject({ ready: 2 });
    expect(await ask(h1, "still here?")).toMatchObject({ status: 200 });
    etcd.start();
    await until("etcd again", 30_000, async () => ((await readyOf(h1))?.cluster.ok === true ? true : undefined), words);
    expect(await readyOf(h1)).toMatchObject({ ready: 2 });
  }, 90_000);

  it("keeps marks for all routers, also for those that start later", async () => {
    const [h1, h2] = plans as [HostPlan, HostPlan];
    const admin = `http://127.0.0.1:${h1.ports.admin}`;
    const cordon = await fetch(`${admin}/v1/cgn/nodes/h2/cordon`, { method: "POST" });
    expect(await cordon.json()).toMatchObject({ mark: "cordoned", workers: 1 });
    await ready(h2, 1);
    await end(h2, "router", "SIGTERM");
    start(h2, "router");
    await ready(h2, 1);
    expect((await readyOf(h2))?.notReady).toEqual({ "h2/sim": "cordoned by an operator" });
    await fetch(`${admin}/v1/cgn/nodes/h2/uncordon`, { method: "POST" });
    for (const plan of plans) await ready(plan, 2);
  }, 90_000);

  it("follows a file that lists daemons as it is edited, and keeps the last right one while it is wrong", async () => {
    const [h1, h2] = plans as [HostPlan, HostPlan];
    const agentOf = ({ name, ports }: HostPlan): string =>
      `[[members]]\nkind = "agent"\nurl = "http://127.0.0.1:${ports.agent}"\nnode = "${name}"\n`;
    const list = place.file("members.toml", agentOf(h1));
    const [http = 0, admin = 0] = await freePorts(2);
    const plan = { ...h1, name: "by-file", ports: { ...h1.ports, http, admin }, dir: join(place.dir, "by-file") };
    const byFile = hostConfig(plan).replace(
      /etcd_endpoints = .*/,
      `state_backend = "static"\nstatic_file = ${JSON.stringify(list)}`,
    );
    files.set(plan, place.file("by-file.toml", byFile));
    start(plan, "router");
    await ready(plan, 1);
    expect((await readyOf(plan))?.workers).toBe(1);
    place.file("members.toml", agentOf(h1) + agentOf(h2));
    await ready(plan, 2);
    place.file("members.toml", "[[members]]\nkind = 7\n");
    const seen = async (is: (seen: Ready) => boolean): Promise<true | undefined> => {
      const now = await readyOf(plan);
      return now !== undefined && is(now) ? true : undefined;
    };
    const isSaid = ({ cluster }: Ready): boolean => /members\.toml:2/.test(cluster.reason ?? "");
    await until("the wrong line is named", 30_000, () => seen(isSaid), words);
    expect(await readyOf(plan)).toMatchObject({ ready: 2, cluster: { ok: false } });
    place.file("members.toml", `${agentOf(h1) + agentOf(h2)}[marks]\nh2 = "draining"\n`);
    await until("the mark", 30_000, () => seen(({ ready: count, cluster }) => count === 1 && cluster.ok), words);
    expect((await readyOf(plan))?.notReady).toEqual({ "h2/sim": "draining by an operator" });
    await end(plan, "router", "SIGTERM");
  }, 150_000);

  it("takes off an agent that was killed, and one that stopped in order", async () => {
    const [h1, h2] = plans as [HostPlan, HostPlan];
    await end(h2, "agent", "SIGTERM");
    await until("h2 off", 20_000, async () => ((await readyOf(h1))?.workers === 1 ? true : undefined), words);
    expect(await ask(h1, "who is left?")).toMatchObject({ status: 200, node: "h1" });
    await end(h1, "agent", "SIGKILL");
    await until("h1 off", 30_000, async () => ((await readyOf(h1))?.workers === 0 ? true : undefined), words);
  }, 90_000);

  it("ends with 4 where no etcd answers, and with 3 for gossip", async () => {
    const [h1] = plans as [HostPlan];
    const [closed = 0] = await freePorts(1);
    const without = place.file(
      "without.toml",
      hostConfig({ ...h1, etcd: [`http://127.0.0.1:${closed}`] }).replace(/lease_ttl = .*/, 'lease_ttl = "1s"'),
    );
    const unreached = await runCgn(["kvcached", "--config", without, "--uds", join(place.dir, "x.sock")]);
    expect(unreached).toMatchObject({ code: 4, err: expect.stringMatching(/Cannot use etcd at .*etcd_endpoints/) });
    const gossip = place.file("gossip.toml", '[cluster]\nstate_backend = "gossip"\n');
    const refused = await runCgn(["kvcached", "--config", gossip, "--uds", join(place.dir, "x.sock")]);
    expect(refused).toMatchObject({ code: 3, err: expect.stringMatching(/no gossip.*"etcd".*"static"/) });
  }, 60_000);
});
