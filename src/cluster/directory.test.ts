import { describe, expect, it } from "vitest";
import { sampleWorker } from "../core/worker.case.ts";
import { runDirectoryCases } from "./directory.case.ts";
import { createMemoryDirectory } from "./memory-directory.ts";
import { mergeDirectories } from "./merge-directories.ts";
import { createStaticDirectory } from "./static-directory.ts";

describe("createMemoryDirectory()", () => {
  runDirectoryCases("memory", (workers) => {
    const directory = createMemoryDirectory(workers);
    return { directory, write: { set: (w) => directory.set(w), remove: (w) => directory.remove(w.id) } };
  });

  it("replaceAll() tells once, and not at all for the same list", () => {
    const directory = createMemoryDirectory([sampleWorker("a")]);
    const told: number[] = [];
    directory.subscribe((workers) => told.push(workers.length));
    directory.replaceAll([sampleWorker("b"), sampleWorker("c")]);
    directory.replaceAll([sampleWorker("b"), sampleWorker("c")]);
    expect(told).toEqual([2]);
  });
});

describe("createMemoryDirectory() with data-parallel ranks", () => {
  const source = (dpRank: number) =>
    ({ type: "events", endpoint: `tcp://h:${5557 + dpRank}`, topic: "", dpRank }) as const;
  const traits = { rankHeader: "x-rank" };
  const engine = (...others: number[]) => sampleWorker("a", { traits, kv: source(0), ranks: others.map(source) });

  it("lists each rank as a worker, and takes them off with their engine", () => {
    const directory = createMemoryDirectory([sampleWorker("b")]);
    directory.set(engine(1, 2));
    expect(
      directory
        .list()
        .map(({ id, kv, rank, ranks }) => ({ id, kv, rank, ranks }))
        .slice(1),
    ).toEqual([
      { id: "a", kv: source(0), rank: { index: 0, of: 3 } },
      { id: "a#dp1", kv: source(1), rank: { index: 1, of: 3 } },
      { id: "a#dp2", kv: source(2), rank: { index: 2, of: 3 } },
    ]);
    directory.set(engine(1));
    expect(directory.list().map(({ id }) => id)).toEqual(["b", "a", "a#dp1"]);
    directory.remove(engine().id);
    expect(directory.list().map(({ id }) => id)).toEqual(["b"]);
  });

  it("tells once for all ranks, and nothing when nothing changed", () => {
    const directory = createMemoryDirectory();
    const told: number[] = [];
    directory.subscribe((workers) => told.push(workers.length));
    directory.set(engine(1, 2));
    directory.set(engine(1, 2));
    expect(told).toEqual([3]);
  });

  it("makes one worker, known by what was sent, of ranks that requests cannot name", () => {
    const directory = createMemoryDirectory();
    directory.set({ ...engine(1, 2), traits: {} });
    expect(directory.list().map(({ id, kv, rank }) => ({ id, type: kv.type, rank }))).toEqual([
      { id: "a", type: "history", rank: undefined },
    ]);
  });
});

describe("createStaticDirectory()", () => {
  runDirectoryCases("static", (workers) => ({ directory: createStaticDirectory(workers) }));
});

describe("mergeDirectories()", () => {
  runDirectoryCases("merged", (workers) => {
    const one = createMemoryDirectory(workers.slice(0, 1));
    const two = createMemoryDirectory(workers.slice(1));
    const holder = (id: string) => (one.list().some((worker) => worker.id === id) ? one : two);
    return {
      directory: mergeDirectories([one, two]),
      write: { set: (w) => holder(w.id).set(w), remove: (w) => holder(w.id).remove(w.id) },
    };
  });

  it("lists an id once: the higher epoch, else the first directory's", () => {
    const one = createMemoryDirectory([sampleWorker("a", { url: "http://one", epoch: 2 })]);
    const two = createMemoryDirectory([sampleWorker("a", { url: "http://two", epoch: 2 })]);
    const merged = mergeDirectories([one, two]);
    let calls = 0;
    merged.subscribe(() => calls++);
    expect(merged.list().map((worker) => worker.url)).toEqual(["http://one"]);
    two.set(sampleWorker("a", { url: "http://two", epoch: 1 }));
    expect(calls).toBe(0);
    two.set(sampleWorker("a", { url: "http://two", epoch: 3 }));
    expect(merged.list().map((worker) => worker.url)).toEqual(["http://two"]);
    merged.close();
    two.remove(sampleWorker("a").id);
    expect(calls).toBe(1);
  });
});
