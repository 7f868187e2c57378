import { encode } from "@msgpack/msgpack";
import { afterEach, describe, expect, it } from "vitest";
import { sampleWorker } from "../core/worker.case.ts";
import type { WorkerInfo } from "../core/worker.ts";
import { createKvcached, type Kvcached } from "./service.ts";
import { type FakePublisher, REAL_CLOCK, startFakePublisher, until } from "./testing/fake-publisher.ts";

const BLOCK = 16;
const TEXT = "What a router asked of an engine that nobody of cgn started, in a few blocks of a few bytes. ";
const ends: (() => unknown)[] = [];
afterEach(() => {
  for (const end of ends.splice(0).reverse()) end();
});

let clock = 1_000;
const stored = (block: number): Uint8Array => {
  const ids = [...Buffer.from(TEXT.slice(block * BLOCK, (block + 1) * BLOCK))];
  return encode([clock++, [["BlockStored", [block + 1], block === 0 ? null : block, ids, BLOCK, null]]]);
};

async function engine(endpoint?: string): Promise<FakePublisher> {
  const made = await startFakePublisher(endpoint === undefined ? {} : { endpoint });
  ends.push(() => made.close());
  return made;
}

function kvcached(): Kvcached {
  const made = createKvcached({ clock: REAL_CLOCK, capBytes: 2 ** 24, seed: 1, env: {} });
  ends.push(() => made.close());
  return made;
}

/** As a router tells of an engine that it watches. */
function seenBy(from: FakePublisher, over: Partial<WorkerInfo> = {}): WorkerInfo {
  const kv = { type: "events", endpoint: from.endpoint, topic: "", dpRank: 0 } as const;
  return sampleWorker("e", { kv, tokenizer: { bytes: true }, watched: true, blockTokens: BLOCK, epoch: 100, ...over });
}

/** Before its engine was asked anything. */
function unasked(from: FakePublisher, epoch: number): WorkerInfo {
  const { blockTokens: _unknown, ...rest } = seenBy(from, { epoch, state: "starting" });
  return rest;
}

const query = { model: "m", root: "", prompt: new TextEncoder().encode(TEXT) };
const held = async (kv: Kvcached): Promise<number> => (await kv.match(query))[0]?.blocks ?? 0;
/** Its first messages come before anybody listens. */
const linked = (kv: Kvcached): Promise<unknown> => until(() => kv.sources()[0]?.state === "live");

describe("an engine that several routers watch", () => {
  it("keeps what its events said when another router starts to watch it, a second later", async () => {
    const [kv, from] = [kvcached(), await engine()];
    kv.register(unasked(from, 100));
    await linked(kv);
    kv.register(seenBy(from));
    await from.publish(stored(0));
    await until(async () => (await held(kv)) === 1);
    // It has not asked the engine yet, then it has; and it cannot reach it for a while.
    kv.register(unasked(from, 101));
    expect(await held(kv)).toBe(1);
    kv.register(seenBy(from, { epoch: 101 }));
    kv.register(seenBy(from, { epoch: 101, state: "down", reason: "no answer" }));
    expect(await held(kv)).toBe(1);
    await from.publish(stored(1));
    await until(async () => (await held(kv)) === 2);
    expect(kv.sources()[0]).toMatchObject({ events: 2, blocksStored: 2, gaps: 0 });
  });

  it("hears what came of the requests of each of them", async () => {
    const [kv, from] = [kvcached(), await engine()];
    for (const epoch of [100, 101]) kv.register(seenBy(from, { epoch }));
    for (const epoch of [100, 101]) {
      const tokens = { promptTokens: 40, completionTokens: 1, cachedTokens: 16, predictedTokens: 0 };
      kv.observe({ ...query, ...tokens, worker: seenBy(from).id, epoch, answer: new Uint8Array() });
    }
    expect(kv.sources()[0]?.reportedTokens).toBe(32);
  });

  it("is empty once its publisher is another one", async () => {
    const [kv, from] = [kvcached(), await engine()];
    kv.register(seenBy(from));
    await linked(kv);
    await from.publish(stored(0));
    await until(async () => (await held(kv)) === 1);
    from.close();
    await until(async () => (await held(kv)) === 0);
    const next = await engine(from.endpoint);
    kv.register(seenBy(from, { epoch: 200 }));
    await linked(kv);
    await next.publish(stored(0));
    await until(async () => (await held(kv)) === 1);
  });

  it("is followed anew where an agent starts it anew, or where it is told otherwise", async () => {
    for (const over of [
      { watched: false, epoch: 101 },
      { epoch: 101, models: ["m", "another"] },
    ]) {
      const [kv, from] = [kvcached(), await engine()];
      const first = seenBy(from, { ...over, epoch: 100, models: ["m"] });
      kv.register(first);
      await linked(kv);
      await from.publish(stored(0));
      await until(async () => (await held(kv)) === 1);
      kv.register(seenBy(from, over));
      expect(await held(kv)).toBe(0);
    }
  });
});
