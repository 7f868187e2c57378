import { join } from "node:path";
import { type CgnProcess, scratch, until } from "../helpers/cgn-process.ts";
import { EtcdProcess, whyNoEtcd } from "../helpers/etcd.ts";
import { type Asked, ask, type HostPlan, hostConfig, LEASE_MS, readyOf, startDaemon } from "./daemons.ts";
import { type Host, openNetwork, whyNoNetwork } from "./network.ts";

// Three hosts with an agent, a kvcached and an etcd member each, and two hosts with a router. They are cut, powered off and bereft of etcd
// under load; no request may fail that had a live worker, and who is dead must be off within a lease. Prints how long each took.

const PORTS = { agent: 7070, agentAdmin: 9092, kv: 7071, engine: 8000, http: 8080, admin: 9091 } as const;

const missing = whyNoNetwork() ?? whyNoEtcd();
if (missing !== undefined) {
  console.log(`skipped: ${missing}`);
  process.exit(0);
}

const place = scratch();
const network = openNetwork(["h1", "h2", "h3", "r1", "r2"]);
const engines = network.hosts.slice(0, 3);
const routers = network.hosts.slice(3);
const etcds = new Map(
  engines.map((host) => [
    host,
    new EtcdProcess({ name: host.name, host: host.address, port: 2379, peerPort: 2380, within: host.within }),
  ]),
);
const endpoints = [...etcds.values()].map(({ url }) => url);
const plans = new Map<Host, HostPlan>(
  network.hosts.map((host) => {
    const { name, address, within } = host;
    return [host, { name, address, within, ports: PORTS, etcd: endpoints, dir: join(place.dir, name) }];
  }),
);
const files = new Map([...plans].map(([host, plan]) => [host, place.file(`${plan.name}.toml`, hostConfig(plan))]));
const daemons = new Map<string, CgnProcess>();
const start = (host: Host, kind: "agent" | "kvcached" | "router"): void => {
  daemons.set(`${host.name} ${kind}`, startDaemon(plans.get(host)!, files.get(host)!, kind));
};
const words = (): string => [...daemons].map(([name, d]) => `--- ${name}\n${d.output().slice(-1_500)}`).join("\n");
const seconds = (ms: number): number => Math.round(ms / 100) / 10;

/** Time until all these routers say so. */
async function when(
  what: string,
  at: readonly Host[],
  isSo: (ready: NonNullable<Awaited<ReturnType<typeof readyOf>>>) => boolean,
  ms = 90_000,
): Promise<number> {
  const since = performance.now();
  for (const host of at) {
    await until(
      `${what} at ${host.name}`,
      ms,
      async () => {
        const ready = await readyOf(plans.get(host)!);
        return ready !== undefined && isSo(ready) ? true : undefined;
      },
      words,
    );
  }
  return seconds(performance.now() - since);
}

/** Requests to both routers in turn, for as long as something happens. */
function underLoad(at: readonly Host[]): { stop(): Promise<Record<string, unknown>> } {
  const answers: Asked[] = [];
  let stopped = false;
  const client = async (n: number): Promise<void> => {
    for (let i = 0; !stopped; i++) {
      answers.push(await ask(plans.get(at[(n + i) % at.length]!)!, `Client ${n} asks for the ${i}th time. `.repeat(4)));
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  };
  const clients = [0, 1, 2, 3].map(client);
  return {
    async stop() {
      stopped = true;
      await Promise.all(clients);
      const failed = answers.filter(({ status }) => status !== 200);
      failures += failed.length;
      return {
        requests: answers.length,
        failed: failed.length,
        slowest_s: seconds(Math.max(...answers.map(({ ms }) => ms))),
        ...(failed.length === 0
          ? {}
          : { said: [...new Set(failed.map(({ status, said }) => `${status} ${said}`))].slice(0, 3) }),
      };
    },
  };
}

let failures = 0;
const figures: Record<string, unknown> = { lease_s: LEASE_MS / 1000 };
const note = (name: string, value: object): void => {
  figures[name] = value;
  console.error(`${name}: ${JSON.stringify(value)}`);
};
const allReady = ({ ready }: { ready: number }): boolean => ready === 3;
const [h1, h2, h3] = engines as [Host, Host, Host];
const [r1] = routers as [Host, Host];

async function bringUp(): Promise<void> {
  for (const etcd of etcds.values()) etcd.start([...etcds.values()]);
  const healthy = async (): Promise<true | undefined> => {
    const answers = await Promise.all(endpoints.map((url) => fetch(`${url}/health`).catch(() => undefined)));
    return answers.every((answer) => answer?.ok === true) ? true : undefined;
  };
  await until("three etcd members", 60_000, healthy, () => [...etcds.values()].map((e) => e.output()).join("\n"));
  for (const host of routers) start(host, "router");
  for (const host of engines) {
    start(host, "kvcached");
    start(host, "agent");
  }
  note("all find each other", { after_s: await when("three engines", routers, allReady) });
}

async function powerOff(): Promise<void> {
  const load = underLoad(routers);
  await new Promise((resolve) => setTimeout(resolve, 2_000));
  h3.cable(false);
  h3.killAll();
  const off = await when("h3 off", routers, ({ workers }) => workers === 2);
  note("a host loses its power, with its member of etcd", { off_the_list_s: off, ...(await load.stop()) });
  h3.cable(true);
  etcds.get(h3)!.start([...etcds.values()]);
  await new Promise((resolve) => setTimeout(resolve, 2_000));
  start(h3, "kvcached");
  start(h3, "agent");
  note("it comes back", { after_s: await when("three again", routers, allReady) });
}

async function partition(): Promise<void> {
  const load = underLoad(routers);
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  h2.cut(r1, true);
  await new Promise((resolve) => setTimeout(resolve, LEASE_MS));
  const answers = await load.stop();
  h2.cut(r1, false);
  note("a router cannot reach one host", { ...answers, back_s: await when("three again", routers, allReady) });
}

async function cutFromEtcd(): Promise<void> {
  const load = underLoad(routers);
  h1.cut(h2, true);
  h1.cut(h3, true);
  etcds.get(h1)!.signal("SIGSTOP");
  await new Promise((resolve) => setTimeout(resolve, 2 * LEASE_MS));
  const kept = await when("three still", routers, allReady, 1_000);
  etcds.get(h1)!.signal("SIGCONT");
  h1.cut(h2, false);
  h1.cut(h3, false);
  note("an agent cannot reach etcd and routers can reach it", { kept: kept >= 0, ...(await load.stop()) });
}

async function loseEtcd(): Promise<void> {
  const load = underLoad(routers);
  for (const etcd of etcds.values()) await etcd.kill();
  const said = await when("the loss is said", routers, ({ cluster }) => !cluster.ok);
  await new Promise((resolve) => setTimeout(resolve, 2 * LEASE_MS));
  await when("three still", routers, allReady, 1_000);
  const answers = await load.stop();
  for (const etcd of etcds.values()) etcd.start([...etcds.values()]);
  note("etcd is lost for two leases", {
    said_after_s: said,
    ...answers,
    again_s: await when("etcd again", routers, ({ cluster, ready }) => cluster.ok && ready === 3),
  });
}

async function main(): Promise<void> {
  await bringUp();
  await powerOff();
  await partition();
  await cutFromEtcd();
  await loseEtcd();
}

try {
  await main();
  console.log(JSON.stringify(figures, undefined, 2));
  process.exitCode = failures === 0 ? 0 : 1;
} catch (error) {
  console.log(JSON.stringify(figures, undefined, 2));
  console.error(error);
  process.exitCode = 1;
} finally {
  network.close();
  for (const etcd of etcds.values()) await etcd.dispose();
  place.dispose();
}
process.exit();
