import { createServer, type Server } from "node:http";
import { systemClock } from "../src/cli/system-clock.ts";
import { EtcdClient } from "../src/cluster/etcd-client.ts";
import { openEtcdMembership } from "../src/cluster/etcd-membership.ts";
import { createMemoryDirectory } from "../src/cluster/memory-directory.ts";
import { nodeId, workerId } from "../src/core/ids.ts";
import { SILENT_LOG } from "../src/core/log.ts";
import type { Member, Membership } from "../src/core/membership.ts";
import type { WorkerInfo } from "../src/core/worker.ts";
import { agentRoutes } from "../src/wire/agent-server.ts";
import { listenWire } from "../src/wire/listen.ts";

// The hosts of bench/churn.ts, all in one process: each has an address of its own in 127/8, an agent's RPCs, an engine that answers at
// once, and its own lease in etcd. Takes { churnPerMinute }: so many leave a minute, every second one without a word, and come back.

export interface NodesStart {
  readonly count: number;
  /** Undefined: the other process keeps the list, and is told of changes. */
  readonly etcd: string | undefined;
  readonly leaseS: number;
}

/** What this process says. */
export type NodesWord =
  | { readonly said: "up"; readonly member: Member }
  | { readonly said: "down"; readonly member: Member }
  | { readonly said: "all" };

const AWAY_MS = 4_000;
const clock = systemClock();
const say = (word: NodesWord): void => void process.send?.(word);
const ANSWER = JSON.stringify({
  id: "chatcmpl-1",
  object: "chat.completion",
  created: 1,
  model: "m",
  choices: [{ index: 0, message: { role: "assistant", content: "x".repeat(200) }, finish_reason: "stop" }],
  usage: { prompt_tokens: 250, completion_tokens: 64, total_tokens: 314, prompt_tokens_details: { cached_tokens: 0 } },
});

function worker(n: number, url: string, epoch: number): WorkerInfo {
  return {
    id: workerId(`node${n}/m`),
    node: nodeId(`node${n}`),
    kind: "vllm",
    traits: {},
    url,
    models: ["m"],
    role: "both",
    kv: { type: "history", entries: 32 },
    tokenizer: { bytes: true },
    state: "ready",
    reason: "",
    epoch,
  };
}

function listenEngine(host: string): Promise<Server> {
  const server = createServer((req, res) => {
    req.resume();
    req.on("end", () => {
      res.writeHead(200, { "content-type": "application/json", "content-length": ANSWER.length });
      res.end(ANSWER);
    });
  });
  return new Promise((resolve) => void server.listen(0, host, () => resolve(server)));
}

/** One host, until it goes. */
class Node {
  readonly #n: number;
  readonly #start: NodesStart;
  #epoch = 0;
  #leave: ((orderly: boolean) => Promise<void>) | undefined;

  constructor(n: number, start: NodesStart) {
    this.#n = n;
    this.#start = start;
  }

  get isThere(): boolean {
    return this.#leave !== undefined;
  }

  async come(): Promise<void> {
    const host = `127.1.0.${this.#n + 1}`;
    const engine = await listenEngine(host);
    const { port } = engine.address() as { port: number };
    const directory = createMemoryDirectory([worker(this.#n, `http://${host}:${port}`, ++this.#epoch)]);
    const wire = await listenWire({ routes: agentRoutes(directory), tcp: { host, port: 0 } });
    const id = nodeId(`node${this.#n}`);
    const url = `http://${host}:${wire.port}`;
    const member: Member = { kind: "agent", id, node: id, url, epoch: this.#epoch };
    const membership = await this.#join();
    const withdraw = membership?.announce(member);
    if (membership === undefined) say({ said: "up", member });
    this.#leave = async (orderly) => {
      this.#leave = undefined;
      if (orderly) await withdraw?.();
      if (membership === undefined) say({ said: "down", member });
      await membership?.close();
      engine.closeAllConnections();
      engine.close();
      await wire.close();
    };
  }

  async go(orderly: boolean): Promise<void> {
    await this.#leave?.(orderly);
  }

  async #join(): Promise<Membership | undefined> {
    const { etcd, leaseS } = this.#start;
    if (etcd === undefined) return undefined;
    const client = new EtcdClient({ endpoints: [etcd], clock });
    return await openEtcdMembership({ client, cluster: "bench", ttlS: leaseS, clock, log: SILENT_LOG });
  }
}

/** Makes hosts leave and come back at that pace, until it is called. */
function churn(nodes: readonly Node[], perMinute: number): () => void {
  if (perMinute === 0) return () => {};
  let turn = 0;
  const timer = setInterval(() => {
    const there = nodes.filter(({ isThere }) => isThere);
    const node = there[(turn * 29) % there.length];
    const orderly = turn++ % 2 === 0;
    void node?.go(orderly).then(() => setTimeout(() => void node.come(), AWAY_MS));
  }, 60_000 / perMinute);
  return () => clearInterval(timer);
}

let nodes: readonly Node[] = [];
let stop = (): void => {};
process.on("message", async (word: NodesStart | { readonly churnPerMinute: number }) => {
  if ("count" in word) {
    nodes = Array.from({ length: word.count }, (_, n) => new Node(n, word));
    for (const node of nodes) await node.come();
    say({ said: "all" });
  } else {
    stop();
    stop = churn(nodes, word.churnPerMinute);
  }
});
process.on("disconnect", () => process.exit(0));
process.send?.("up");
