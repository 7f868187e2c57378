import { expect, it } from "vitest";
import { sampleWorker } from "../core/worker.case.ts";
import type { WorkerDirectory, WorkerInfo } from "../core/worker.ts";

/** A directory under test and the way to change it. A directory that cannot change has no `write`. */
export interface DirectoryUnderTest {
  readonly directory: WorkerDirectory;
  readonly write?: {
    set(worker: WorkerInfo): void;
    remove(worker: WorkerInfo): void;
  };
}

/** The rules of `WorkerDirectory` that every implementation keeps. `make` gives one that holds exactly these workers. */
export function runDirectoryCases(name: string, make: (workers: readonly WorkerInfo[]) => DirectoryUnderTest): void {
  it(`${name} lists each worker once`, () => {
    const { directory } = make([sampleWorker("a"), sampleWorker("b")]);
    expect(directory.list().map((worker) => worker.id)).toEqual(["a", "b"]);
  });

  it(`${name} does not call a new subscriber before a change`, () => {
    const { directory } = make([sampleWorker("a")]);
    let calls = 0;
    directory.subscribe(() => calls++);
    expect(calls).toBe(0);
  });

  if (make([]).write === undefined) return;

  it(`${name} tells each change with the whole list`, () => {
    const { directory, write } = make([sampleWorker("a")]);
    const told: string[] = [];
    directory.subscribe((workers) => told.push(workers.map((w) => `${w.id}:${w.state}`).join(" ")));
    write?.set(sampleWorker("b"));
    write?.set(sampleWorker("a", { state: "down", reason: "killed" }));
    write?.remove(sampleWorker("a"));
    expect(told).toEqual(["a:ready b:ready", "a:down b:ready", "b:ready"]);
    expect(directory.list().map((worker) => worker.id)).toEqual(["b"]);
  });

  it(`${name} says nothing when nothing changed`, () => {
    const { directory, write } = make([sampleWorker("a")]);
    let calls = 0;
    directory.subscribe(() => calls++);
    write?.set(sampleWorker("a"));
    write?.remove(sampleWorker("unknown"));
    expect(calls).toBe(0);
  });

  it(`${name} keeps a list that was handed out as it was`, () => {
    const { directory, write } = make([sampleWorker("a")]);
    const before = directory.list();
    write?.set(sampleWorker("b"));
    expect(before.map((worker) => worker.id)).toEqual(["a"]);
  });

  it(`${name} stops calling a subscriber that left, also in the middle of a round`, () => {
    const { directory, write } = make([]);
    const told: string[] = [];
    const leaveSecond: (() => void)[] = [];
    directory.subscribe(() => {
      told.push("first");
      leaveSecond[0]?.();
    });
    leaveSecond.push(directory.subscribe(() => told.push("second")));
    write?.set(sampleWorker("a"));
    write?.set(sampleWorker("b"));
    expect(told).toEqual(["first", "first"]);
  });
}
