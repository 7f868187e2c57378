import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { followAgents } from "../src/cli/follow-agents.ts";
import { systemClock } from "../src/cli/system-clock.ts";
import { EtcdClient } from "../src/cluster/etcd-client.ts";
import { openEtcdMembership } from "../src/cluster/etcd-membership.ts";
import { createMemoryMembership, type MemoryMembership } from "../src/cluster/memory-membership.ts";
import { SILENT_LOG } from "../src/core/log.ts";
import { type Member, type Membership, memberKey } from "../src/core/membership.ts";
import { createKvcached } from "../src/kvcached/service.ts";
import { createRouter, type Router } from "../src/router/create-router.ts";
import type { PromptRenderer } from "../src/router/render.ts";
import { Sample } from "../src/sim/replay/sample.ts";
import { createMetrics } from "../src/telemetry/metrics.ts";
import { openTls } from "../src/wire/tls.ts";
import { type EtcdProcess, startEtcd, whyNoEtcd } from "../test/helpers/etcd.ts";
import type { NodesStart, NodesWord } from "./churn-nodes.ts";
import type { LoadJob, LoadResult } from "./proxy-load.ts";
import { forked } from "./proxy-targets.ts";
import { type BenchResult, figure, machine, printResult } from "./result.ts";

const NODES = 64;
const RATE = 500;
const LEASE_S = 5;
const ROUNDS = 3;
/** Shares of the nodes that leave a minute, and come back. */
const CHURNS = [0, 0.1, 1] as const;
const clock = systemClock();

const RENDERER: PromptRenderer = {
  chat: ({ messages }) => ({
    bytes: Buffer.from((messages as { content: string }[]).map((m) => m.content).join("\n")),
  }),
  completion: (prompt) => ({ bytes: Buffer.from(String(prompt)) }),
  messages: () => ({ reason: "not rendered here" }),
  responses: () => ({ reason: "not rendered here" }),
};

/**
 * What a decision costs, from the body's last byte to the choice, while 64 nodes come and go: no churn, 10 % and 100 % of the nodes a minute,
 * by turns, at 500 requests a second. Nodes announce themselves in a real etcd, each with its lease and its agent's RPCs; without etcd the
 * list is kept in memory. Every second node that leaves says nothing.
 */
export async function run({ json, quick }: { readonly json: boolean; readonly quick: boolean }): Promise<BenchResult> {
  const seconds = quick ? 10 : 20;
  const missing = whyNoEtcd();
  if (missing !== undefined) process.stderr.write(`members are kept in memory: ${missing}\n`);
  const etcd = missing === undefined ? await startEtcd() : undefined;
  const children: ChildProcess[] = [];
  const fleet = await openFleet(etcd);
  try {
    const nodes = await forked(new URL("./churn-nodes.ts", import.meta.url).pathname);
    const load = await forked(new URL("./proxy-load.ts", import.meta.url).pathname);
    children.push(nodes, load);
    nodes.on("message", (word: NodesWord) => fleet.hear(word));
    const start: NodesStart = { count: NODES, etcd: etcd?.url, leaseS: LEASE_S };
    const all = new Promise<void>((resolve) =>
      nodes.on("message", (word: NodesWord) => word.said === "all" && resolve()),
    );
    nodes.send(start);
    await all;
    await fleet.whole();
    const results = await measure(fleet, nodes, load, seconds);
    const source = etcd === undefined ? "memory" : "etcd";
    const named = results.map((each) => ({ ...each, case: `${each.case}, ${NODES} nodes by ${source}, ${RATE}/s` }));
    const result: BenchResult = { bench: "churn", results: named, machine: machine() };
    printResult(result, json);
    return result;
  } finally {
    for (const child of children) child.kill("SIGKILL");
    await fleet.close();
    await etcd?.dispose();
  }
}

async function measure(fleet: Fleet, nodes: ChildProcess, load: ChildProcess, seconds: number) {
  const ask = async (job: Omit<LoadJob, "url">): Promise<LoadResult> => {
    load.send({ ...job, url: fleet.url });
    return (await once(load, "message"))[0] as LoadResult;
  };
  const job = { bytes: 1024, stream: false, connections: 48, rate: RATE, requests: RATE * seconds };
  await ask({ ...job, requests: RATE * Math.ceil(seconds / 3) });
  const runs = CHURNS.map(() => ({
    p50: [] as number[],
    p99: [] as number[],
    answer: [] as number[],
    failed: 0,
    changes: 0,
  }));
  for (let round = 0; round < ROUNDS; round++) {
    for (const [i, share] of CHURNS.entries()) {
      nodes.send({ churnPerMinute: share * NODES });
      const took = fleet.sample();
      const before = fleet.changes();
      const { p99Us, failed } = await ask(job);
      const run = runs[i]!;
      run.p50.push(took.at(0.5) * 1_000);
      run.p99.push(took.at(0.99) * 1_000);
      run.answer.push(p99Us / 1_000);
      run.failed += failed;
      run.changes += fleet.changes() - before;
      nodes.send({ churnPerMinute: 0 });
      await fleet.whole();
    }
  }
  return CHURNS.flatMap((share, i) => {
    const { p50, p99, answer, failed, changes } = runs[i]!;
    const name = `churn ${share * 100} %/min`;
    return [
      figure(name, "decision p50", "us", p50),
      figure(name, "decision p99", "us", p99),
      figure(name, "answer p99", "ms", answer),
      figure(name, "changes of the list", "", [changes]),
      figure(name, "failed requests", "", [failed]),
    ];
  });
}

/** A router that follows the nodes. */
interface Fleet {
  readonly url: string;
  /** Where there is no etcd, nodes are told of here. */
  hear(word: NodesWord): void;
  /** Milliseconds of each decision from now on. */
  sample(): Sample;
  changes(): number;
  /** Until all nodes take requests. */
  whole(): Promise<void>;
  close(): Promise<void>;
}

async function openFleet(etcd: EtcdProcess | undefined): Promise<Fleet> {
  const memory = createMemoryMembership();
  const membership = etcd === undefined ? memory : await joinEtcd(etcd.url);
  const tls = openTls({ requireMtls: false }, { clock, log: SILENT_LOG });
  const followed = followAgents({ memberships: [membership], clock, tls, hostLostMs: LEASE_S * 1_000 });
  const { directory } = followed;
  const metrics = createMetrics({ processMetrics: false });
  const service = createKvcached({ clock, log: SILENT_LOG, env: {}, metrics, capBytes: 2 ** 28, seed: 1 });
  const leave = service.follow(directory);
  const router = createRouter({
    settings: {
      listenHttp: { host: "127.0.0.1", port: 0 },
      listenAdmin: { host: "127.0.0.1", port: 0 },
      nodeId: "bench",
      policy: "ttft",
      maxBodyBytes: 2 ** 20,
      scoreWeights: { kv: 0.55, load: 0.25, power: 0.1, capacity: 0.1 },
      admission: {},
      loadWait: { timeoutMs: 10_000, keepAliveMs: 5_000 },
    },
    directory,
    membership,
    knowledge: service,
    renderers: { get: () => RENDERER },
    clock,
    log: SILENT_LOG,
    metrics,
  });
  await router.start();
  let changes = 0;
  directory.subscribe(() => changes++);
  return {
    url: `http://127.0.0.1:${router.address.port}`,
    hear: (word) => hearInMemory(memory, word),
    sample: () => sampleDecisions(router),
    changes: () => changes,
    async whole() {
      const end = clock.now() + 90_000;
      while ((router.core.fleet.group("m")?.ready.length ?? 0) < NODES) {
        if (clock.now() > end) throw new Error("not all nodes are there");
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    },
    async close() {
      await router.close();
      leave();
      service.close();
      followed.close();
      tls.close();
      await membership.close();
    },
  };
}

async function joinEtcd(url: string): Promise<Membership> {
  const client = new EtcdClient({ endpoints: [url], clock });
  const patienceMs = 20_000;
  return await openEtcdMembership({ client, cluster: "bench", ttlS: LEASE_S, clock, log: SILENT_LOG, patienceMs });
}

function hearInMemory(memory: MemoryMembership, word: NodesWord): void {
  if (word.said !== "up" && word.said !== "down") return;
  const without = (member: Member): boolean => memberKey(member) !== memberKey(word.member);
  memory.replaceAll([...memory.list().filter(without), ...(word.said === "up" ? [word.member] : [])]);
}

/** Each decision's time as the router measures it, from now on. */
function sampleDecisions({ core }: Router): Sample {
  const took = new Sample();
  const { metrics } = core;
  const decided = Object.getPrototypeOf(metrics).decided as (ms: number) => void;
  metrics.decided = (ms) => {
    took.add(ms);
    decided.call(metrics, ms);
  };
  return took;
}
