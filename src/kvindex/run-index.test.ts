import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { workerId } from "../core/ids.ts";
import type { Tier } from "../core/kv-event.ts";
import { createNaiveIndex } from "./naive-index.ts";
import type { IndexStats, PrefixIndex } from "./prefix-index.ts";
import { createPrefixIndex } from "./run-index.ts";

const encoder = new TextEncoder();

interface Chain {
  readonly text: string;
  readonly blockBytes?: number;
  readonly first?: number;
  readonly parent?: number;
  readonly root?: string;
  readonly tier?: Tier;
}

/** Store a text cut into equal blocks, named by consecutive numbers. */
function store(index: PrefixIndex, slot: number, chain: Chain): boolean {
  const { text, blockBytes = 4, first = 1, parent, root = "", tier = "device" } = chain;
  const bytes = encoder.encode(text);
  const count = Math.floor(bytes.length / blockBytes);
  return index.store(slot, {
    root,
    parent: parent === undefined ? undefined : BigInt(parent),
    names: Array.from({ length: count }, (_, i) => BigInt(first + i)),
    bytes,
    ends: Uint32Array.from({ length: count }, (_, i) => (i + 1) * blockBytes),
    blockTokens: 16,
    tier,
  });
}

const match = (index: PrefixIndex, text: string, root = "") => index.match(root, encoder.encode(text));
const tokens = (index: PrefixIndex, text: string, root = "") => match(index, text, root).map((found) => found.tokens);
const make = () => createPrefixIndex({ capBytes: 1 << 30, seed: 7 });

describe("match()", () => {
  it("match() counts whole blocks, and not the block that ends with the prompt", () => {
    const index = make();
    const slot = index.addWorker(workerId("a"));
    store(index, slot, { text: "abcdefghijkl" });
    expect(match(index, "abcdefghijklm")).toEqual([
      { slot, worker: "a", blocks: 3, tokens: 48, bytes: 12, tier: "device", source: "events" },
    ]);
    expect(tokens(index, "abcdefghijkl")).toEqual([32]);
    expect(tokens(index, "abcdefghXjklm")).toEqual([32]);
    expect(tokens(index, "")).toEqual([]);
    expect(tokens(index, "abcdefghijklm", "salt")).toEqual([]);
  });

  it("match() keeps apart any number of workers", () => {
    const index = make();
    const slots = Array.from({ length: 100 }, (_, i) => index.addWorker(workerId(`w${i}`)));
    for (const [i, slot] of slots.entries()) store(index, slot, { text: "abcd".repeat(1 + (i % 50)) });
    const found = match(index, "abcd".repeat(60));
    expect(found.length).toBe(100);
    for (const { slot, blocks } of found) expect(blocks).toBe(1 + (slots.indexOf(slot) % 50));
  });

  it("match() tells the slowest tier that counts", () => {
    const index = make();
    const slot = index.addWorker(workerId("a"));
    store(index, slot, { text: "abcdefghijkl" });
    store(index, slot, { text: "abcdefgh", tier: "host" });
    index.remove(slot, [2n], "device");
    expect(match(index, "abcdefghijklm")[0]).toMatchObject({ blocks: 3, tier: "host" });
    expect(match(index, "abcdX")[0]).toMatchObject({ blocks: 1, tier: "device" });
    index.remove(slot, [2n]);
    expect(match(index, "abcdefghijklm")[0]).toMatchObject({ blocks: 1, tier: "device" });
  });

  it("match() reuses the objects of its last answer", () => {
    const index = make();
    store(index, index.addWorker(workerId("a")), { text: "abcd" });
    const out = index.match("", encoder.encode("abcde"));
    const [first] = out;
    expect(index.match("", encoder.encode("abcdef"), out)[0]).toBe(first);
  });

  it("match() interpolates recorded prompts between turns, exactly at a turn", () => {
    const index = make();
    const slot = index.addWorker(workerId("a"));
    index.record(slot, { root: "", bytes: encoder.encode("0123456789"), marks: [{ byteLength: 10, tokens: 5 }] });
    const marks = [{ byteLength: 20, tokens: 25 }];
    index.record(slot, { root: "", bytes: encoder.encode("0123456789abcdefghij"), marks });
    expect(index.stats().historyEntries).toBe(1);
    expect(match(index, "0123456789abcdefghijk")[0]).toMatchObject({ source: "history", tokens: 25, bytes: 20 });
    expect(tokens(index, "0123456789X")).toEqual([5]);
    expect(tokens(index, "0123456789abcdeX")).toEqual([15]);
    expect(tokens(index, "0123456789abcdefghij")).toEqual([24]);
  });
});

describe("dropWorker()", () => {
  it("dropWorker() makes the handle void, also when the place is used again", () => {
    const index = make();
    const old = index.addWorker(workerId("a"));
    store(index, old, { text: "abcd" });
    index.dropWorker(old);
    const slot = index.addWorker(workerId("b"));
    expect(slot).not.toBe(old);
    expect(index.workerOf(old)).toBeUndefined();
    expect(index.blocksOf(old)).toBe(0);
    expect(store(index, old, { text: "abcd" })).toBe(false);
    index.remove(old, [1n]);
    index.clearWorker(old);
    expect(match(index, "abcde")).toEqual([]);
  });

  it("dropWorker() leaves nothing to whoever gets its lane, though runs are split while it is swept", () => {
    const index = make();
    const gone = index.addWorker(workerId("gone"));
    const keeper = index.addWorker(workerId("keeper"));
    for (const slot of [gone, keeper]) store(index, slot, { text: "abcdefghijkl" });
    for (let n = 0; n < 200; n++) store(index, keeper, { text: `${n}`.padEnd(4, "x"), first: 100 + n });
    index.dropWorker(gone);
    index.remove(keeper, []);
    store(index, keeper, { text: "EFGH", first: 90, parent: 1 });
    for (let n = 0; n < 20; n++) index.remove(keeper, []);
    const next = index.addWorker(workerId("next"));
    store(index, next, { text: "other" });
    expect(match(index, "abcdefghijklm").map((found) => found.worker)).toEqual(["keeper"]);
  });

  it("dropWorker() gives all memory back, bit by bit", () => {
    const index = make();
    const keeper = index.addWorker(workerId("keeper"));
    const idle = index.stats().bytes;
    for (let round = 0; round < 5; round++) {
      const slot = index.addWorker(workerId(`w${round}`));
      for (let n = 0; n < 300; n++) store(index, slot, { text: `${round} ${n} `.repeat(20), first: n * 1000 });
      index.dropWorker(slot);
      for (let n = 0; n < 200; n++) index.remove(keeper, [1n]);
    }
    expect(index.stats().runs).toBe(0);
    expect(index.stats().bytes).toBeLessThan(idle + 60_000);
  });
});

describe("correct()", () => {
  it("correct() hides what the engine did not have, until it is stored anew", () => {
    const index = make();
    const slot = index.addWorker(workerId("a"));
    store(index, slot, { text: "abcdefghijkl" });
    const prompt = encoder.encode("abcdefghijklm");
    expect(index.correct(slot, "", prompt, 16)).toBe(true);
    expect(tokens(index, "abcdefghijklm")).toEqual([16]);
    expect(index.correct(slot, "", prompt, 16)).toBe(false);
    store(index, slot, { text: "efgh", first: 2, parent: 1 });
    expect(tokens(index, "abcdefghijklm")).toEqual([32]);
  });

  it("correct() stays in force for blocks before one that is stored anew", () => {
    const index = make();
    const slot = index.addWorker(workerId("a"));
    store(index, slot, { text: "abcdefghijklmnopqrst" });
    index.correct(slot, "", encoder.encode("abcdefghijklmnopqrstu"), 16);
    store(index, slot, { text: "mnop", first: 4, parent: 3 });
    expect(tokens(index, "abcdefghijklmnopqrstu")).toEqual([16]);
    store(index, slot, { text: "efghijkl", first: 2, parent: 1 });
    expect(tokens(index, "abcdefghijklmnopqrstu")).toEqual([64]);
  });

  it("correct() leaves alone what was stored after the match", () => {
    const index = make();
    const slot = index.addWorker(workerId("a"));
    store(index, slot, { text: "abcdefgh" });
    const since = index.clock;
    index.clearWorker(slot);
    store(index, slot, { text: "abcdefgh" });
    expect(index.correct(slot, "", encoder.encode("abcdefghi"), 0, since)).toBe(false);
    expect(tokens(index, "abcdefghi")).toEqual([32]);
  });
});

describe("setCounted()", () => {
  it("setCounted() stops matches before blocks that do not count, also for what is stored below them later", () => {
    const index = make();
    const slot = index.addWorker(workerId("a"));
    store(index, slot, { text: "abcdefghijkl" });
    index.setCounted(slot, [2n], false);
    expect(tokens(index, "abcdefghijklm")).toEqual([16]);
    store(index, slot, { text: "mnop", first: 4, parent: 2 });
    index.setCounted(slot, [2n], true);
    expect(tokens(index, "abcdefghijklm")).toEqual([48]);
    expect(tokens(index, "abcdefghmnopq")).toEqual([32]);
    index.setCounted(slot, [4n], true);
    expect(tokens(index, "abcdefghmnopq")).toEqual([48]);
  });

  it("setCounted() leaves a place counting that has another name which does", () => {
    const index = make();
    const slot = index.addWorker(workerId("a"));
    store(index, slot, { text: "abcdefgh" });
    store(index, slot, { text: "efgh", first: 12, parent: 1 });
    index.setCounted(slot, [2n], false);
    expect(tokens(index, "abcdefghi")).toEqual([32]);
    expect(index.stats().uncountedBlocks).toBe(1);
    index.remove(slot, [12n]);
    expect(tokens(index, "abcdefghi")).toEqual([16]);
    index.remove(slot, [2n]);
    expect(index.stats()).toMatchObject({ uncountedBlocks: 0, blocks: 1, runs: 1 });
  });
});

describe("save() and load()", () => {
  /** A worker with 6,000 blocks in some tiers, a correction, marks, and a prompt without events. */
  function filled(): { readonly index: PrefixIndex; readonly slot: number; readonly texts: readonly string[] } {
    const index = make();
    const slot = index.addWorker(workerId("a"));
    const other = index.addWorker(workerId("other"));
    const texts: string[] = [];
    for (let n = 0; n < 20; n++) {
      const text = `${"shared text ".repeat(40)}${`${n} own text `.repeat(100)}`.slice(0, 1200);
      texts.push(text);
      for (const holder of [slot, other])
        store(index, holder, { text, first: 1 + 1000 * n, root: n % 3 === 0 ? "salt" : "" });
      store(index, slot, { text, first: 1 + 1000 * n, tier: "host", root: n % 3 === 0 ? "salt" : "" });
    }
    index.setCounted(slot, [1200n], false);
    index.correct(slot, "", encoder.encode(`${texts[2]}!`), 160 * 16);
    index.remove(slot, [4100n, 4101n]);
    index.record(slot, {
      root: "",
      bytes: encoder.encode("sent ".repeat(90_000)),
      marks: [{ byteLength: 50, tokens: 10 }],
    });
    return { index, slot, texts };
  }

  const answers = (index: PrefixIndex, texts: readonly string[]) =>
    texts.flatMap((text) =>
      ["", "salt"].map((root) => match(index, `${text}!`, root).filter(({ worker }) => worker === "a")),
    );

  it("load() gives the same matches from chunks of at most 256 KiB", () => {
    const { index, slot, texts } = filled();
    const chunks = [...index.save(slot)];
    expect(Math.max(...chunks.map((chunk) => chunk.length))).toBeLessThanOrEqual(262_144);
    const copy = make();
    const twin = copy.addWorker(workerId("a"));
    for (const chunk of chunks) expect(copy.load(twin, chunk)).toBe(true);
    expect(answers(copy, texts)).toEqual(answers(index, texts));
    expect(match(copy, "sent sent sent!")).toEqual(match(index, "sent sent sent!"));
    index.dropWorker(1);
    const held = ({ blocks, blocksByTier, uncountedBlocks }: IndexStats) => ({ blocks, blocksByTier, uncountedBlocks });
    expect(held(copy.stats())).toEqual(held(index.stats()));
  });

  it("load() refuses a chunk that is damaged, cut, of another seed, or not ours", () => {
    const { index, slot } = filled();
    const copy = make();
    const twin = copy.addWorker(workerId("a"));
    const [chunk] = [...index.save(slot)].filter(({ length }) => length > 1000).slice(-1);
    const damaged = [0, 9, 17, 30, 40, 500, chunk!.length - 1].map((at) => chunk!.with(at, chunk![at]! ^ 4));
    for (const bad of [...damaged, chunk!.subarray(0, 600), new Uint8Array(), encoder.encode("x".repeat(99))]) {
      expect(copy.load(twin, bad)).toBe(false);
    }
    const stranger = createPrefixIndex({ capBytes: 1 << 30, seed: 8 });
    expect(stranger.load(stranger.addWorker(workerId("a")), chunk!)).toBe(false);
    expect(copy.stats()).toMatchObject({ blocks: 0, runs: 0, historyEntries: 0 });
    expect(copy.load(twin, chunk!)).toBe(true);
  });

  it("save() gives memory back when it is left half way, and goes on when another begins", () => {
    const { index, slot, texts } = filled();
    const idle = index.stats().bytes;
    const [first] = index.save(slot);
    expect(first).toBeDefined();
    expect(index.stats().bytes).toBeLessThan(idle + 300_000);
    const one = index.save(slot)[Symbol.iterator]();
    one.next();
    const other = [...index.save(slot)];
    const copies = [other, [...{ [Symbol.iterator]: () => one }]].map((chunks) => {
      const copy = make();
      const twin = copy.addWorker(workerId("a"));
      for (const chunk of chunks) copy.load(twin, chunk);
      return answers(copy, texts);
    });
    expect(copies[0]).toEqual(copies[1]);
  });

  it("save() has all that is held from its beginning to its end, though everything is split and freed meanwhile", () => {
    const index = make();
    const slot = index.addWorker(workerId("a"));
    const text = (n: number) => `${`chain ${n} of blocks `.repeat(500)}`.slice(0, 4 * 1500);
    for (let n = 0; n < 12; n++) store(index, slot, { text: text(n), first: 1 + 2000 * n });
    const chunks: Uint8Array[] = [];
    let round = 0;
    for (const chunk of index.save(slot)) {
      chunks.push(chunk);
      // Chains 0 to 5 lose their ends bit by bit, and get branches; 6 to 11 are only branched off.
      for (let n = 0; n < 12; n++) {
        const at = 1400 - 97 * (round % 14) - n;
        store(index, slot, { text: "another way on", first: 1_000_000 + 50 * (n + 12 * round), parent: 2000 * n + at });
        if (n < 6)
          index.remove(
            slot,
            Array.from({ length: 20 }, (_, i) => BigInt(2000 * n + 1500 - 20 * (round % 70) - i)),
          );
      }
      round++;
    }
    expect(round).toBeGreaterThan(4);
    const copy = make();
    const twin = copy.addWorker(workerId("a"));
    for (const chunk of chunks) expect(copy.load(twin, chunk)).toBe(true);
    for (let n = 6; n < 12; n++) expect(match(copy, `${text(n)}!`)[0]?.blocks).toBe(1500);
    for (let n = 0; n < 6; n++) {
      const held = match(index, `${text(n)}!`)[0]?.blocks ?? 0;
      expect(match(copy, `${text(n)}!`)[0]?.blocks ?? 0).toBeGreaterThanOrEqual(held);
    }
  });
});

describe("store()", () => {
  it("store() counts blocks whose parent is not known", () => {
    const index = make();
    const slot = index.addWorker(workerId("a"));
    expect(store(index, slot, { text: "abcdefgh", parent: 99 })).toBe(false);
    expect(index.stats().orphanBlocks).toBe(2);
  });

  it("store() appends what is generated block by block without a run for each", () => {
    const index = make();
    const slot = index.addWorker(workerId("a"));
    store(index, slot, { text: "abcd" });
    for (let n = 1; n < 200; n++) store(index, slot, { text: "abcd", first: n + 1, parent: n });
    expect(index.stats().runs).toBeLessThan(12);
    expect(tokens(index, "abcd".repeat(201))).toEqual([200 * 16]);
  });

  it("store() throws for ends that run backwards or out of the bytes", () => {
    const index = make();
    const slot = index.addWorker(workerId("a"));
    const blocks = {
      root: "",
      parent: undefined,
      names: [1n, 2n],
      bytes: new Uint8Array(8),
      blockTokens: 16,
      tier: "device",
    } as const;
    expect(() => index.store(slot, { ...blocks, ends: Uint32Array.of(4, 3) })).toThrow(RangeError);
    expect(() => index.store(slot, { ...blocks, ends: Uint32Array.of(4, 9) })).toThrow(/block 1 ends at byte 9/);
  });
});

describe("the memory cap", () => {
  it("stays below the cap, never claims more than is held, and keeps what is new", () => {
    const step = fc.record({
      worker: fc.nat(2),
      text: fc.nat(90),
      blocks: fc.integer({ min: 1, max: 240 }),
      kind: fc.nat(9),
    });
    const capBytes = 600_000;
    let evicted = 0;
    fc.assert(
      fc.property(fc.array(step, { minLength: 150, maxLength: 300, size: "max" }), fc.nat(), (steps, seed) => {
        const index = createPrefixIndex({ capBytes, seed });
        const naive = createNaiveIndex();
        const slots = [0, 1, 2].map(
          (i) => [index.addWorker(workerId(`${i}`)), naive.addWorker(workerId(`${i}`))] as const,
        );
        for (const { worker, text, blocks, kind } of steps) {
          const [slot, twin] = slots[worker]!;
          const whole = `${String(text % 7).padEnd(40, "s")}${`${text}`.repeat(480)}`.slice(0, 4 * blocks);
          if (kind === 0) {
            const names = Array.from({ length: blocks }, (_, i) => BigInt(text * 1000 + 239 - i));
            index.remove(slot, names);
            naive.remove(twin, names);
          } else if (kind === 1 && text === 0) {
            index.clearWorker(slot);
            naive.clearWorker(twin);
          } else if (kind === 3) {
            // A chain goes on whose blocks may be evicted by now.
            const more = { text: "more of it".repeat(8), first: text * 1000 + 800, parent: text * 1000 + blocks - 1 };
            store(index, slot, more);
            store(naive, twin, more);
          } else {
            // Now and then the same blocks under other names.
            const first = text * 1000 + (kind === 2 ? 500 : 0);
            store(index, slot, { text: whole, first });
            store(naive, twin, { text: whole, first });
            expect(match(index, `${whole}X`).find((found) => found.slot === slot)?.blocks ?? 0).toBeGreaterThanOrEqual(
              Math.floor(whole.length / 4),
            );
          }
          expect(index.stats().bytes).toBeLessThanOrEqual(capBytes);
          const held = new Map(match(naive, `${whole}X`).map((found) => [found.worker, found.tokens]));
          for (const found of match(index, `${whole}X`))
            expect(found.tokens).toBeLessThanOrEqual(held.get(found.worker) ?? 0);
        }
        evicted += index.stats().evictedBlocks;
      }),
      // Shrinking hundreds of steps takes minutes: the seed is told, and enough.
      { numRuns: 15, endOnFailure: true },
    );
    expect(evicted).toBeGreaterThan(1000);
  });

  it("drops what alone is too large for it", () => {
    const index = createPrefixIndex({ capBytes: 400_000, seed: 1 });
    const slot = index.addWorker(workerId("a"));
    expect(store(index, slot, { text: "abcd".repeat(2000) })).toBe(true);
    expect(index.stats()).toMatchObject({ blocks: 0, evictedBlocks: 2000 });
    store(index, slot, { text: "abcd".repeat(20) });
    expect(index.stats().blocks).toBe(20);
  });
});
