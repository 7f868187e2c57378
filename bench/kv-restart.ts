import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { encode } from "@msgpack/msgpack";
import { nodeId, workerId } from "../src/core/ids.ts";
import { SILENT_LOG } from "../src/core/log.ts";
import { createMirror, type Mirror } from "../src/kvcached/mirror.ts";
import { type FakePublisher, REAL_CLOCK, startFakePublisher } from "../src/kvcached/testing/fake-publisher.ts";
import { connectKv, type KvClient } from "../src/wire/kv-client.ts";
import { type BenchFigure, figure, machine, printResult } from "./result.ts";

const ENGINES = 16;
const BLOCKS = 1_000_000;
const BLOCK_TOKENS = 16;
/** Blocks in one message, and in one chain. */
const MESSAGE_BLOCKS = 64;
const CHAIN_BLOCKS = 512;
/** What engines publish while kvcached is dead. */
const MISSED_MESSAGES = 10;
const ROUNDS = 3;
const ENTRY = join(import.meta.dirname, "..", "src", "cli", "bin", "cgn.ts");

/** An engine that stores chains of random text. */
class Engine {
  readonly publisher: FakePublisher;
  readonly id: string;
  blocks = 0;
  #state: number;

  constructor(publisher: FakePublisher, n: number) {
    this.publisher = publisher;
    this.id = `engine-${n}`;
    this.#state = 2 * n + 1;
  }

  async publish(messages: number): Promise<void> {
    for (let i = 0; i < messages; i++) {
      const first = this.blocks;
      const names = Array.from({ length: MESSAGE_BLOCKS }, (_, at) => first + at + 1);
      const ids = Array.from({ length: MESSAGE_BLOCKS * BLOCK_TOKENS }, () => this.#byte());
      const parent = first % CHAIN_BLOCKS === 0 ? null : first;
      // Never whole: engines send it as a floating point number.
      const ts = Math.round(performance.timeOrigin + performance.now()) + 0.5;
      await this.publisher.publish(encode([ts, [["BlockStored", names, parent, ids, BLOCK_TOKENS, null]]]));
      this.blocks += MESSAGE_BLOCKS;
    }
  }

  #byte(): number {
    this.#state = (Math.imul(this.#state, 1_664_525) + 1_013_904_223) >>> 0;
    return 0x20 + ((this.#state >>> 16) % 90);
  }
}

interface World {
  readonly dir: string;
  readonly uds: string;
  readonly config: string;
  readonly engines: readonly Engine[];
  readonly client: KvClient;
  readonly mirror: Mirror;
}

function startKvcached({ config }: Pick<World, "config">): ChildProcess {
  const args = ["--disable-warning=ExperimentalWarning", ENTRY, "kvcached", "--config", config];
  return spawn(process.execPath, args, { stdio: ["ignore", "ignore", "inherit"] });
}

async function until(what: string, done: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 120_000;
  for (;;) {
    if (await done()) return;
    if (performance.now() > deadline) throw new Error(`Never came: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** A gauge of kvcached's own metrics, in seconds. */
function gauge(uds: string, name: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const req = request({ socketPath: uds, path: "/metrics" }, async (res) => {
      let text = "";
      for await (const part of res) text += part;
      resolve(Number(new RegExp(`^${name} (\\S+)$`, "m").exec(text)?.[1]));
    });
    req.once("error", reject);
    req.end();
  });
}

const wanted = (engines: readonly Engine[]): number => engines.reduce((sum, { blocks }) => sum + blocks, 0);

async function blocksOf(client: KvClient): Promise<number> {
  try {
    return (await client.stats()).blocks;
  } catch {
    return -1;
  }
}

async function makeWorld(): Promise<World> {
  const dir = mkdtempSync(join(tmpdir(), "cgn-bench-"));
  const uds = join(dir, "kv.sock");
  const config = join(dir, "cgn.toml");
  writeFileSync(
    config,
    `[kv]\nuds = "${uds}"\nlisten = "127.0.0.1:0"\nindex_dir = "${dir}/index"\nsnapshot_every = "1s"\n`,
  );
  const engines: Engine[] = [];
  for (let n = 0; n < ENGINES; n++) engines.push(new Engine(await startFakePublisher(), n));
  const client = connectKv({ address: { uds }, clock: REAL_CLOCK });
  const mirror = createMirror({ clients: [client], clock: REAL_CLOCK, log: SILENT_LOG, capBytes: 2 ** 31 });
  return { dir, uds, config, engines, client, mirror };
}

async function register({ engines, client }: World): Promise<void> {
  for (const { id, publisher } of engines) {
    await client.register({
      id: workerId(id),
      node: nodeId("n"),
      kind: "vllm",
      traits: {},
      url: "http://127.0.0.1:1",
      models: ["m"],
      role: "both",
      blockTokens: BLOCK_TOKENS,
      kv: { type: "events", endpoint: publisher.endpoint, replay: publisher.replay, topic: "", dpRank: 0 },
      tokenizer: { bytes: true },
      state: "ready",
      reason: "",
      epoch: 1,
    });
  }
}

interface Round {
  readonly listenMs: number;
  readonly wholeMs: number;
  readonly copiedMs: number;
  readonly lagMs: number;
  readonly cpuMs: number;
}

/** Kill it, let engines go on, start it again, and wait until index and copy have all that engines hold. */
async function restart(
  world: World,
  running: ChildProcess,
): Promise<{ readonly round: Round; readonly next: ChildProcess }> {
  const { engines, client, mirror, uds } = world;
  const ended = new Promise((resolve) => running.once("exit", resolve));
  running.kill("SIGKILL");
  await ended;
  for (const engine of engines) await engine.publish(MISSED_MESSAGES);
  await until("the loss", () => mirror.status()[0]?.state === "lost");
  const start = performance.now();
  const next = startKvcached(world);
  await until("it answers", async () => (await blocksOf(client)) >= 0);
  const listenMs = performance.now() - start;
  await until("the index", async () => (await blocksOf(client)) === wanted(engines));
  const wholeMs = performance.now() - start;
  // Without what other processes on the machine take.
  const cpuMs = 1_000 * (await gauge(uds, "process_cpu_seconds_total"));
  await until("the copy", () => mirror.status()[0]?.state === "live" && mirror.status()[0]?.blocks === wanted(engines));
  const copiedMs = performance.now() - start;
  const { snapshot } = await client.stats();
  if (snapshot.restored !== ENGINES || snapshot.dropped !== 0)
    throw new Error(`Not restored: ${JSON.stringify(snapshot)}`);
  const lagMs = 1_000 * (await gauge(uds, "nodejs_eventloop_lag_max_seconds"));
  return { round: { listenMs, wholeMs, copiedMs, lagMs, cpuMs }, next };
}

async function written({ client }: World): Promise<void> {
  const { blocks } = await client.stats();
  await until("a snapshot", async () => {
    const { snapshot } = await client.stats();
    return snapshot.state === "written" && snapshot.blocks === blocks;
  });
}

/**
 * kvcached killed with a million blocks of 16 engines in its index: how long until it has all of them again, from its snapshot and
 * the engines' replay, and until a router's copy has.
 */
export async function run({ json }: { readonly json: boolean }): Promise<unknown> {
  const world = await makeWorld();
  let running = startKvcached(world);
  try {
    await until("it answers", async () => (await blocksOf(world.client)) >= 0);
    await register(world);
    await until("sources", async () => (await world.client.sources()).every(({ state }) => state === "live"));
    const perEngine = Math.ceil(BLOCKS / ENGINES / MESSAGE_BLOCKS);
    for (let done = 0; done < perEngine; done += 50) {
      for (const engine of world.engines) await engine.publish(Math.min(50, perEngine - done));
      await until("the index", async () => (await blocksOf(world.client)) === wanted(world.engines));
    }
    const rounds: Round[] = [];
    let bytes = 0;
    for (let n = 0; n < ROUNDS; n++) {
      await written(world);
      bytes = (await world.client.stats()).snapshot.bytes;
      const { round, next } = await restart(world, running);
      running = next;
      rounds.push(round);
    }
    const name = `${ENGINES} engines, ${wanted(world.engines)} blocks`;
    const of = (metric: string, unit: string, pick: (round: Round) => number): BenchFigure =>
      figure(name, metric, unit, rounds.map(pick));
    const results = [
      of("process start to first answer", "ms", (round) => round.listenMs),
      of("process start to whole index", "ms", (round) => round.wholeMs),
      of("CPU from process start to whole index", "ms", (round) => round.cpuMs),
      of("process start to whole copy in a router", "ms", (round) => round.copiedMs),
      of("longest pause of the event loop", "ms", (round) => round.lagMs),
      figure(name, "snapshot", "bytes", [bytes]),
    ];
    const result = { bench: "kv-restart", results, machine: machine() };
    printResult(result, json);
    return result;
  } finally {
    running.kill("SIGKILL");
    world.mirror.close();
    world.client.close();
    for (const { publisher } of world.engines) publisher.close();
    rmSync(world.dir, { recursive: true, force: true });
  }
}
