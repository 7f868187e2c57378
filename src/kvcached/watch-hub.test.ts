import fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import type { Clock } from "../core/clock.ts";
import { nodeId, workerId } from "../core/ids.ts";
import type { WorkerInfo } from "../core/worker.ts";
import { createPrefixIndex } from "../kvindex/run-index.ts";
import { deltaFromMessage, type KnownBy } from "../wire/kv-delta.ts";
import type { EncodedDelta, WatchMessage } from "../wire/watch-message.ts";
import { AppliedIndex } from "./applied-index.ts";
import { MirrorCopy } from "./mirror-copy.ts";
import { type WatchableWorker, WatchHub } from "./watch-hub.ts";

const clock: Clock = {
  now: () => performance.now(),
  wall: () => 0,
  after(ms, fn) {
    const timer = setTimeout(fn, ms);
    return () => clearTimeout(timer);
  },
};

const ends: (() => void)[] = [];
afterEach(() => {
  for (const end of ends.splice(0)) end();
});

function info(id: string): WorkerInfo {
  return {
    id: workerId(id),
    node: nodeId("n"),
    kind: "vllm",
    traits: {},
    url: "http://127.0.0.1:1",
    models: ["m"],
    role: "both",
    kv: { type: "events", endpoint: "tcp://127.0.0.1:1", topic: "", dpRank: 0 },
    tokenizer: { bytes: true },
    state: "ready",
    reason: "",
    epoch: 1,
  };
}

class FakeWorker implements WatchableWorker {
  readonly info: WorkerInfo;
  readonly slot: number;
  knownBy: KnownBy = "events";
  readonly alignTokens = 1;
  readonly historyEntries = 4;

  constructor(index: AppliedIndex, id: string) {
    this.info = info(id);
    this.slot = index.addWorker(this.info.id);
  }

  historyState(): undefined {
    return undefined;
  }
}

const TEXT = "abcdefghijklmnopqrstuvwxyz".repeat(20);
const PROMPT = new TextEncoder().encode(TEXT);

/** A hub over an index of its own, with what tests do to it. */
function world(options: { readonly logBytes?: number; readonly retainMs?: number } = {}) {
  const index = new AppliedIndex(createPrefixIndex({ seed: 3, capBytes: 2 ** 24 }));
  const workers = new Map<ReturnType<typeof workerId>, FakeWorker>();
  const hub = new WatchHub({
    index,
    clock,
    instance: "one",
    workers,
    sources: () => [],
    ready: Promise.resolve(),
    ...options,
  });
  ends.push(() => hub.close());
  const follow = (id: string) => {
    const worker = new FakeWorker(index, id);
    workers.set(worker.info.id, worker);
    hub.followed(worker);
    return worker;
  };
  /** The chain of `count` blocks of `TEXT` from block `from` on, of 4 bytes each. */
  const store = (worker: FakeWorker, from: number, count: number) => {
    const names = BigUint64Array.from({ length: count }, (_, i) => BigInt(from + i + 1));
    const ends = Uint32Array.from({ length: count }, (_, i) => 4 * (i + 1));
    const bytes = PROMPT.subarray(4 * from, 4 * (from + count));
    const parent = from === 0 ? undefined : BigInt(from);
    index.store(
      worker.slot,
      { root: "", parent, names, bytes, ends, blockTokens: 4, tier: "device" },
      new Uint32Array(),
    );
  };
  const drop = (worker: FakeWorker) => {
    index.dropWorker(worker.slot);
    workers.delete(worker.info.id);
    hub.changed();
  };
  return { index, workers, hub, follow, store, drop };
}

/** A copy that is fed with messages, as `MirrorLink` does. */
class Copy {
  copy: MirrorCopy | undefined;
  whole = false;

  take({ instance, version, part }: WatchMessage<EncodedDelta>): void {
    if (part?.type === "begin") {
      const { seed } = part;
      const none = { capBytes: 2 ** 24, clock, watcher: "w", ownNotes: () => 0, older: undefined };
      this.copy = new MirrorCopy({ instance, seed, ...none });
      this.whole = false;
    } else if (part?.type === "worker") this.copy?.add(part.worker);
    else if (part?.type === "chunk") this.copy?.load(part.worker, part.data);
    else if (part?.type === "deltas") this.copy?.apply(part.deltas.map(deltaFromMessage), version);
    else if (part?.type === "end") this.whole = true;
  }

  matches(): Record<string, number> {
    return figures(this.copy?.match({ model: "m", root: "", prompt: PROMPT }) ?? []);
  }
}

const figures = (matches: readonly { worker: string; tokens: number }[]) =>
  Object.fromEntries(matches.map(({ worker, tokens }) => [worker, tokens]));

/** Watch, and take messages by hand. */
function watch(hub: WatchHub, from?: { instance: string; version: number }) {
  const stop = new AbortController();
  ends.push(() => stop.abort());
  const ask = { watcher: "w", sourcesOnly: false, ...(from === undefined ? {} : { from }) };
  return { messages: hub.watch(ask, stop.signal), stop };
}

async function take(messages: AsyncGenerator<WatchMessage<EncodedDelta>>, copy: Copy, until: () => boolean) {
  for (let i = 0; i < 10_000 && !until(); i++) {
    const next = await messages.next();
    if (next.done) return;
    copy.take(next.value);
  }
}

describe("WatchHub", () => {
  it("watch() gives a snapshot while the index changes, and the copy is equal at its end", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.nat(5), fc.nat(2), fc.nat(100), fc.integer({ min: 1, max: 20 })), { maxLength: 60 }),
        fc.nat(30),
        async (steps, before) => {
          const { index, workers, hub, follow, store, drop } = world();
          const act = ([what, which, from, count]: (typeof steps)[number]) => {
            const id = `w${which}`;
            const worker = workers.get(workerId(id)) ?? follow(id);
            const names = BigUint64Array.from({ length: count }, (_, i) => BigInt(from + i + 1));
            if (what <= 1) store(worker, from, count);
            else if (what === 2) index.remove(worker.slot, names);
            else if (what === 3) index.setCounted(worker.slot, names, count % 2 === 0);
            else if (what === 4 && count > 15) index.clearWorker(worker.slot);
            else if (what === 5 && count > 17) drop(worker);
            else store(worker, 0, count);
          };
          const todo = [...steps];
          for (const step of todo.splice(0, before)) act(step);
          const { messages, stop } = watch(hub);
          const copy = new Copy();
          // One change between each two messages.
          for (let i = 0; i < 2_000 && (!copy.whole || todo.length > 0); i++) {
            const next = await messages.next();
            if (next.done) break;
            copy.take(next.value);
            const step = todo.shift();
            if (step !== undefined) act(step);
            else if (copy.whole) break;
          }
          const version = Math.max(hub.version, 0);
          await take(messages, copy, () => (copy.copy?.version ?? -1) >= version);
          stop.abort();
          const truth = index.index.match("", PROMPT).map(({ worker, tokens }) => ({ worker, tokens }));
          expect(copy.matches()).toEqual(figures(truth));
          expect(copy.copy?.index.stats().blocks).toBe(index.index.stats().blocks);
        },
      ),
      { numRuns: 150 },
    );
  });

  it("watch() goes on where a watcher was cut, and begins anew when that is forgotten", async () => {
    const { hub, follow, store } = world({ logBytes: 4_000 });
    const worker = follow("w0");
    store(worker, 0, 3);
    const first = watch(hub);
    const copy = new Copy();
    await take(first.messages, copy, () => copy.whole);
    const at = { instance: "one", version: copy.copy?.version ?? 0 };
    first.stop.abort();
    await first.messages.return(undefined);
    store(worker, 3, 2);
    const second = watch(hub, at);
    await take(second.messages, copy, () => copy.matches().w0 === 20);
    expect(copy.matches()).toEqual({ w0: 20 });
    second.stop.abort();
    await second.messages.return(undefined);
    for (let i = 0; i < 30; i++) store(worker, 5, 20);
    const third = watch(hub, at);
    const messages: (string | undefined)[] = [];
    await take(third.messages, { take: (m: WatchMessage<EncodedDelta>) => messages.push(m.part?.type) } as never, () =>
      messages.includes("begin"),
    );
    expect(messages).toContain("begin");
    // Nobody knows this run.
    const fourth = watch(hub, { ...at, instance: "two" });
    expect((await fourth.messages.next()).value?.part?.type).toBe("begin");
  });

  it("watch() cuts a watcher that does not take its messages, with the reason, and keeps no more than its bound", async () => {
    const { hub, follow, store, index } = world({ logBytes: 10_000 });
    const worker = follow("w0");
    const slow = watch(hub);
    const copy = new Copy();
    await take(slow.messages, copy, () => copy.whole);
    for (let i = 0; i < 500; i++) store(worker, 0, 20);
    expect(hub.logBytes).toBeLessThanOrEqual(10_000 + index.index.stats().bytes);
    await expect(slow.messages.next()).rejects.toThrow(/too slow.*Watch again/);
    expect(hub.watchers()).toEqual([]);
  });

  it("watch() writes nothing down without watchers, a while after the last has left", async () => {
    const { hub, follow, store } = world({ retainMs: 20 });
    const worker = follow("w0");
    store(worker, 0, 3);
    expect(hub.logBytes).toBe(0);
    const { messages, stop } = watch(hub);
    const copy = new Copy();
    await take(messages, copy, () => copy.whole);
    store(worker, 3, 3);
    expect(hub.logBytes).toBeGreaterThan(0);
    stop.abort();
    await messages.return(undefined);
    await new Promise((resolve) => setTimeout(resolve, 60));
    expect(hub.logBytes).toBe(0);
    store(worker, 6, 3);
    expect(hub.logBytes).toBe(0);
    const again = watch(hub, { instance: "one", version: copy.copy?.version ?? 0 });
    expect((await again.messages.next()).value?.part?.type).toBe("begin");
  });
});
