import { until } from "../helpers/cgn-process.ts";
import { whyNoEtcd } from "../helpers/etcd.ts";
import { skewedClocks } from "./cases-clock.ts";
import { loseEtcd, loseEtcdMember } from "./cases-etcd.ts";
import { agentCutFromEtcd, badLinks, partitionHost, partitionRouters, powerOff } from "./cases-hosts.ts";
import { exactness, frozenRouter, joiningRouter } from "./cases-routers.ts";
import { rollingRestart } from "./cases-upgrade.ts";
import { LEASE_MS } from "./daemons.ts";
import { Verdict } from "./judge.ts";
import { whyNoNetwork } from "./network.ts";
import { seconds, World } from "./world.ts";

// Three hosts with an agent, a kvcached and an etcd member each, and two hosts with a router. They are cut, powered off and bereft of etcd
// under load; no request may fail that had a live worker, and who is dead must get none after a lease. Prints how long each took.
// Names of cases as arguments: only these.

type Case = (world: World, verdict: Verdict) => Promise<void>;

const CASES: Readonly<Record<string, Case>> = {
  "exact through both routers": exactness,
  "a router is killed, and a new one joins": joiningRouter,
  "a router is stopped for longer than a lease": frozenRouter,
  "a host loses its power": powerOff,
  "a host is cut off": partitionHost,
  "a router cannot reach one host and the other router": partitionRouters,
  "an agent cannot reach etcd": agentCutFromEtcd,
  "links lose packets and are slow": badLinks,
  "the leader of etcd is lost": loseEtcdMember,
  "all of etcd is lost for two leases": loseEtcd,
  "clocks are wrong by hours": skewedClocks,
  "all daemons are started anew in turn": rollingRestart,
};

const missing = whyNoNetwork() ?? whyNoEtcd();
if (missing !== undefined) {
  console.log(`skipped: ${missing}`);
  process.exit(0);
}

/** Start all that there is, and wait until both routers see three engines. */
async function bringUp(world: World, verdict: Verdict): Promise<void> {
  const since = performance.now();
  for (const host of world.engines) world.startEtcd(host);
  const urls = [...world.etcds.values()].map(({ url }) => url);
  const healthy = async (): Promise<true | undefined> => {
    const answers = await Promise.all(urls.map((url) => fetch(`${url}/health`).catch(() => undefined)));
    return answers.every((answer) => answer?.ok === true) ? true : undefined;
  };
  const words = (): string => [...world.etcds.values()].map((etcd) => etcd.output()).join("\n");
  await until("three etcd members", 60_000, healthy, words);
  for (const host of world.routers) world.start(host, "router");
  for (const host of world.engines) {
    world.start(host, "kvcached");
    world.start(host, "agent");
  }
  const found = await world.when("three engines", world.routers, ({ ready }) => ready === 3, { since });
  verdict.note({ after_s: seconds(found) });
}

async function main(world: World, wanted: readonly string[]): Promise<boolean> {
  const report: Record<string, unknown> = { lease_s: LEASE_MS / 1_000 };
  let wrong = 0;
  let isBroken = false;
  const chosen = Object.entries(CASES).filter(
    ([name]) => wanted.length === 0 || wanted.some((word) => name.includes(word)),
  );
  for (const [name, run] of [["all start and find each other", bringUp] as const, ...chosen]) {
    const verdict = new Verdict();
    const since = performance.now();
    try {
      await run(world, verdict);
    } catch (error) {
      verdict.wrong.push(String(error));
      isBroken = true;
    }
    wrong += verdict.wrong.length;
    const problems = verdict.wrong.length === 0 ? {} : { wrong: verdict.wrong };
    report[name] = { ...verdict.figures, took_s: seconds(performance.now() - since), ...problems };
    console.error(`${verdict.wrong.length === 0 ? "ok   " : "WRONG"} ${name}: ${JSON.stringify(report[name])}`);
    // What follows would be judged by what this one left behind.
    if (isBroken) break;
  }
  console.log(JSON.stringify(report, undefined, 2));
  return wrong === 0;
}

const world = new World();
// Ended from outside, it leaves no namespace and no daemon behind.
for (const [signal, code] of [
  ["SIGINT", 130],
  ["SIGTERM", 143],
] as const)
  process.once(signal, () => void world.close().finally(() => process.exit(code)));
let isGood = false;
try {
  isGood = await main(world, process.argv.slice(2));
} finally {
  await world.close();
}
process.exit(isGood ? 0 : 1);
