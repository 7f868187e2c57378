import { existsSync, writeFileSync } from "node:fs";
import { chmod, mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { encode } from "@msgpack/msgpack";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import { nodeId, workerId } from "../core/ids.ts";
import { type Log, SILENT_LOG } from "../core/log.ts";
import type { WorkerInfo } from "../core/worker.ts";
import { ownMark } from "../process/process-mark.ts";
import { createKvcached, type Kvcached } from "./service.ts";
import { SnapshotKeeper } from "./snapshot-keeper.ts";
import { checkSnapshot } from "./snapshot-read.ts";
import { DEFAULT_SOURCE_POLICY } from "./source-state.ts";
import { type FakePublisher, REAL_CLOCK, startFakePublisher, until } from "./testing/fake-publisher.ts";

const root = await mkdtemp(join(tmpdir(), "cgn-snapshot-"));
afterAll(() => rm(root, { recursive: true }));
const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

const BLOCK = 16;
const ID = workerId("node/0");
const TEXT =
  "The observatory's archive has glass plates, night logs and letters; who wants them asks for them by their year. ";

/** The event of one block of `TEXT`, chained to the one before. */
function stored(block: number, name = block + 1, parent: number | null = block === 0 ? null : name - 1): unknown {
  const ids = [...Buffer.from(TEXT.slice(block * BLOCK, (block + 1) * BLOCK))];
  return ["BlockStored", [name], parent, ids, BLOCK, null];
}

let engineClock = 1_000;
const message = (...events: unknown[]): Uint8Array => encode([engineClock++, events]);

async function engine(over: Parameters<typeof startFakePublisher>[0] = {}): Promise<FakePublisher> {
  const made = await startFakePublisher(over);
  ends.push(() => made.close());
  return made;
}

function worker(from: FakePublisher, over: Partial<WorkerInfo> = {}): WorkerInfo {
  return {
    id: ID,
    node: nodeId("node"),
    kind: "vllm",
    traits: {},
    url: "http://127.0.0.1:1",
    models: ["m"],
    role: "both",
    blockTokens: BLOCK,
    kv: { type: "events", endpoint: from.endpoint, replay: from.replay, topic: "", dpRank: 0 },
    tokenizer: { bytes: true },
    state: "ready",
    reason: "",
    epoch: 1,
    ...over,
  };
}

interface Run {
  readonly kv: Kvcached;
  readonly keeper: SnapshotKeeper;
  readonly said: string[];
  /** What the file of the last run said is in the index, and the engines were asked. */
  readonly restored: Promise<void>;
  /** As `kill -9` would: nothing is written. */
  kill(): void;
}

async function run(
  dir: string,
  over: Partial<ConstructorParameters<typeof SnapshotKeeper>[0]> = {},
  before = (_: Kvcached): void => {},
): Promise<Run> {
  const said: string[] = [];
  const log: Log = { ...SILENT_LOG, info: (text) => void said.push(text), warn: (text) => void said.push(text) };
  const instance = `run-${Math.random()}`;
  const keeper = new SnapshotKeeper({ dir, everyMs: 0, clock: REAL_CLOCK, log, instance, ...over });
  const seed = (await keeper.open()) ?? 99;
  const policy = { ...DEFAULT_SOURCE_POLICY, replayMs: 300, checkMs: 60_000 };
  const kv = createKvcached({
    clock: REAL_CLOCK,
    capBytes: 2 ** 24,
    seed,
    env: {},
    policy,
    snapshot: () => keeper.status(),
  });
  ends.push(() => kv.close());
  before(kv);
  return { kv, keeper, said, restored: keeper.start(kv), kill: () => leaveAsKilled(dir, kv) };
}

/** What another process left: it is no more, and its lock says who it was. */
function leaveAsKilled(dir: string, kv: Kvcached): void {
  kv.close();
  const lock = join(dir, "kvcached.lock");
  if (existsSync(lock))
    writeFileSync(lock, JSON.stringify({ ...ownMark(), startTime: "long ago", instance: "killed" }));
}

const held = (kv: Kvcached): number =>
  kv.match({ model: "m", root: "", prompt: new TextEncoder().encode(TEXT) })[0]?.tokens ?? 0;
let folders = 0;
const folder = (): string => join(root, String(folders++));
const fileOf = (dir: string): string => join(dir, "prefix-index.snapshot");

/** A run that knew three blocks of an engine's four, and wrote them down. */
async function written(dir: string): Promise<FakePublisher> {
  const from = await engine();
  await from.publish(message(stored(0), stored(1)));
  await from.publish(message(stored(2)));
  const first = await run(dir);
  first.kv.register(worker(from));
  await until(() => held(first.kv) === 3 * BLOCK);
  await first.keeper.close();
  first.kill();
  return from;
}

describe("SnapshotKeeper", () => {
  it("SnapshotKeeper lets the next run know what the engine still proves, and the replay fills the rest", async () => {
    const dir = folder();
    const from = await written(dir);
    expect((await stat(fileOf(dir))).mode & 0o777).toBe(0o600);
    expect((await readdir(dir)).filter((name) => name.endsWith(".new"))).toEqual([]);
    // Nobody was there to hear it. What was published before the snapshot is out of the engine's buffer.
    await from.publish(message(stored(3)));
    from.forget(1);
    const { kv, keeper, restored, said } = await run(dir);
    expect(held(kv)).toBe(0);
    await restored;
    await until(() => held(kv) === 4 * BLOCK);
    await until(() => kv.sources()[0]?.state === "live");
    expect(kv.sources()[0]).toMatchObject({ gaps: 0, restarts: 0 });
    expect(keeper.status()).toMatchObject({ state: "written", restored: 1, dropped: 0, blocks: 3 });
    expect(said).toContain("took in the snapshot of the last run");
    // Registered again by its agent: nothing is learnt anew.
    kv.register(worker(from));
    expect(held(kv)).toBe(4 * BLOCK);
    expect(kv.dropUnclaimed()).toEqual([]);
  });

  it("Kvcached.sources() says the blocks held now, after a snapshot and after a clear", async () => {
    // `cgn kv sources` showed stored less removed of this run: 1 after a restart with 3 restored, and 4 after a clear.
    const dir = folder();
    const from = await written(dir);
    await from.publish(message(stored(3)));
    const { kv, restored } = await run(dir);
    await restored;
    await until(() => held(kv) === 4 * BLOCK);
    expect(kv.sources()[0]).toMatchObject({ blocks: 4 });
    await from.publish(message(["AllBlocksCleared"]));
    await until(() => held(kv) === 0);
    expect(kv.sources()[0]).toMatchObject({ blocks: 0, blocksStored: 1, blocksRemoved: 0 });
    kv.agentNotice(ID, "reset");
    expect(kv.sources()[0]).toMatchObject({ blocks: 0 });
  });

  it("SnapshotKeeper does not believe it when the engine was restarted", async () => {
    const dir = folder();
    const from = await written(dir);
    from.close();
    const again = await engine({ endpoint: from.endpoint, replay: from.replay });
    for (const name of [101, 102, 103]) await again.publish(message(stored(0, name, null)));
    const { kv, keeper, restored } = await run(dir);
    await restored;
    await until(() => held(kv) === BLOCK);
    expect(keeper.status()).toMatchObject({ restored: 0, dropped: 1 });
  });

  it("SnapshotKeeper does not believe it when the engine's buffer no longer reaches back to it", async () => {
    const dir = folder();
    const from = await written(dir);
    await from.publish(message(stored(3)));
    // The block that the lost message removed would be believed for ever.
    from.forget(2);
    const { kv, keeper, restored } = await run(dir);
    await restored;
    expect(keeper.status()).toMatchObject({ restored: 0, dropped: 1 });
    expect(held(kv)).toBe(0);
  });

  it("SnapshotKeeper counts nothing of an engine that does not answer", async () => {
    const dir = folder();
    const from = await written(dir);
    from.close();
    const { kv, keeper, restored } = await run(dir);
    await Promise.race([restored, new Promise((resolve) => setTimeout(resolve, 600))]);
    expect(held(kv)).toBe(0);
    expect(kv.stats().blocks).toBe(3);
    // It is the same process after all: it only could not be reached.
    expect(keeper.status()).toMatchObject({ restored: 0, dropped: 0 });
    await keeper.close();
  });

  it("SnapshotKeeper does not believe what was written of another process of the worker", async () => {
    const dir = folder();
    const from = await written(dir);
    const { kv, keeper, restored } = await run(dir);
    kv.register(worker(from, { epoch: 2 }));
    await restored;
    await until(() => held(kv) === 3 * BLOCK);
    expect(keeper.status().restored).toBe(0);
  });

  it("SnapshotKeeper believes the file of a worker whose agent was quicker, unless it says another process", async () => {
    // The log said "restored 0, dropped 0": parts of workers that had registered before they were read were passed over.
    for (const epoch of [1, 2]) {
      const dir = folder();
      const from = await written(dir);
      await from.publish(message(stored(3)));
      from.forget(1);
      const { kv, keeper, restored } = await run(dir, {}, (service) => service.register(worker(from, { epoch })));
      await restored;
      const same = epoch === 1;
      await until(() => held(kv) === (same ? 4 * BLOCK : 0));
      expect(keeper.status()).toMatchObject({ restored: same ? 1 : 0, dropped: same ? 0 : 1 });
      expect(kv.dropUnclaimed()).toEqual([]);
    }
  });

  it("SnapshotKeeper drops workers that nobody registers any more", async () => {
    const dir = folder();
    await written(dir);
    const { kv, restored } = await run(dir);
    await restored;
    expect(kv.dropUnclaimed()).toEqual([ID]);
    expect(kv.sources()).toEqual([]);
  });

  it("SnapshotKeeper puts a damaged file aside, whatever byte of it is wrong, and says so", async () => {
    const dir = folder();
    const from = await written(dir);
    const good = await readFile(fileOf(dir));
    for (let at = 0; at < good.length; at += 7) {
      const bad = Buffer.from(good);
      bad[at]! ^= 0x10;
      await writeFile(fileOf(dir), bad);
      expect((await checkSnapshot(fileOf(dir))).is, `byte ${at}`).not.toBe("whole");
    }
    for (const length of [0, 10, 40, good.length - 1]) {
      await writeFile(fileOf(dir), good.subarray(0, length));
      expect(await checkSnapshot(fileOf(dir)), `${length} bytes`).toMatchObject({ is: "damaged" });
    }
    await writeFile(fileOf(dir), Buffer.concat([good, good.subarray(20, 60)]));
    expect(await checkSnapshot(fileOf(dir))).toMatchObject({ is: "damaged" });
    const { kv, keeper, said, restored } = await run(dir);
    await restored;
    expect(said[0]).toMatch(/damaged .* is not believed: it lies in prefix-index.snapshot.damaged-/);
    expect(keeper.status().detail).toBe(said[0]);
    expect((await readdir(dir)).some((name) => name.includes(".damaged-"))).toBe(true);
    expect(kv.sources()).toEqual([]);
    // The service goes on and writes a good one.
    kv.register(worker(from));
    await until(() => held(kv) === 3 * BLOCK);
    await keeper.close();
    expect(await checkSnapshot(fileOf(dir))).toMatchObject({ is: "whole" });
  });

  it("SnapshotKeeper refuses another format with a word", async () => {
    const dir = folder();
    await written(dir);
    const bytes = await readFile(fileOf(dir));
    bytes.writeUInt32LE(7, 16);
    await writeFile(fileOf(dir), bytes);
    const { said, kv } = await run(dir);
    expect(said[0]).toMatch(/format 7, which this version of cgn does not read/);
    expect(kv.sources()).toEqual([]);
  });

  it("SnapshotKeeper says once that it cannot write, and the service goes on", async () => {
    const dir = join(folder(), "taken");
    const from = await engine();
    await from.publish(message(stored(0)));
    // A file where the folder should be: what root cannot write either.
    await chmod(root, 0o700);
    await writeFile(join(dir, "..").replace(/\/$/, ""), "");
    const { kv, keeper, said } = await run(dir, { everyMs: 20 });
    kv.register(worker(from));
    await until(() => keeper.status().state === "failing");
    await from.publish(message(stored(1)));
    await until(() => held(kv) === 2 * BLOCK);
    await new Promise((resolve) => setTimeout(resolve, 60));
    expect(said.filter((text) => text.includes("cannot be written"))).toHaveLength(1);
    expect(keeper.status().detail).toMatch(/ENOTDIR|EEXIST/);
    await keeper.close();
  });

  it("SnapshotKeeper refuses a folder whose kvcached runs, and that one goes on", async () => {
    // A second kvcached on the same folder locked the first out for good, and its empty index took the place of what was known.
    const dir = folder();
    const from = await engine();
    await from.publish(message(stored(0)));
    const one = await run(dir, { everyMs: 20 });
    one.kv.register(worker(from));
    await until(() => one.keeper.status().state === "written");
    await expect(run(dir)).rejects.toThrow(/another kvcached \(process \d+ on .* Give each kvcached its own index_dir/);
    await expect(run(dir)).rejects.toMatchObject({ code: "STORAGE_UNUSABLE" });
    await from.publish(message(stored(1)));
    await until(() => one.keeper.status().blocks === 2);
    await one.keeper.close();
    expect(one.keeper.status()).toMatchObject({ state: "written", detail: "" });
    // It left in order: the next one may come.
    const { restored, keeper } = await run(dir);
    await restored;
    expect(keeper.status().restored).toBe(1);
    await keeper.close();
    expect(await readdir(dir)).toEqual(["prefix-index.snapshot"]);
  });

  it("SnapshotKeeper writes beside a kvcached that it cannot look at only when that one is gone", async () => {
    // A pid of another container means another process here: neither may it be taken for gone, nor for running for ever.
    const dir = folder();
    const from = await written(dir);
    const lock = join(dir, "kvcached.lock");
    writeFileSync(lock, JSON.stringify({ pid: 1, startTime: "x", place: "elsewhere", instance: "theirs" }));
    const { kv, keeper, restored, said } = await run(dir, { everyMs: 20 });
    await restored;
    await from.publish(message(stored(3)));
    await until(() => held(kv) === 4 * BLOCK && keeper.status().state === "failing");
    expect(said[0]).toMatch(
      /another kvcached \(process 1 on elsewhere\) keeps its snapshot in this folder: nothing is written/,
    );
    const before = Date.now() / 1000 - 60;
    await utimes(lock, before, before);
    await until(() => keeper.status().state === "written" && keeper.status().blocks === 4);
    expect(keeper.status().detail).not.toMatch(/Give each/);
    await keeper.close();
  });

  it("SnapshotKeeper says the age of what is written since it last was what is held", async () => {
    // The age grew for as long as nothing changed: it looked as if snapshots had stopped.
    const dir = folder();
    const from = await engine();
    await from.publish(message(stored(0)));
    let aheadMs = 0;
    const clock = { ...REAL_CLOCK, wall: () => Date.now() + aheadMs };
    const { kv, keeper } = await run(dir, { everyMs: 20, clock });
    kv.register(worker(from));
    await until(() => keeper.status().blocks === 1);
    aheadMs = 3_600_000;
    expect(keeper.status().ageMs).toBeGreaterThan(3_000_000);
    await until(() => (keeper.status().ageMs ?? 0) < 60_000);
    await keeper.close();
  });
});
