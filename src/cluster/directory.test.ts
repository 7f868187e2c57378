import { describe, expect, it } from "vitest";
import { runDirectoryCases, sampleWorker } from "./directory.case.ts";
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
