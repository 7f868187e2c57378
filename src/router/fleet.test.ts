import { describe, expect, it } from "vitest";
import { createMemoryDirectory } from "../cluster/memory-directory.ts";
import { nodeId, workerId } from "../core/ids.ts";
import type { WorkerInfo } from "../core/worker.ts";
import { Fleet, findGroup } from "./fleet.ts";

const worker = (over: Partial<WorkerInfo> = {}): WorkerInfo => ({
  id: workerId("n/m"),
  node: nodeId("n"),
  kind: "vllm",
  traits: {},
  url: "http://127.0.0.1:1",
  models: ["m"],
  role: "both",
  kv: { type: "history", entries: 1 },
  tokenizer: {},
  state: "ready",
  reason: "",
  epoch: 1,
  ...over,
});

const codeOf = (run: () => unknown): string => {
  try {
    run();
    return "none";
  } catch (e) {
    return (e as { code: string }).code;
  }
};

describe("a worker that is held back", () => {
  const held = new Set<string>();
  const ready = (workers: readonly WorkerInfo[], ...heldBack: string[]): string[] => {
    held.clear();
    for (const id of heldBack) held.add(id);
    const directory = createMemoryDirectory(workers);
    const fleet = new Fleet(
      directory,
      () => {},
      () => {},
      (id) => (held.has(id) ? "circuit open" : undefined),
    );
    const ids = fleet.group("m")!.ready.map(({ id }) => String(id));
    fleet.close();
    return ids;
  };
  const as = (id: string, role: WorkerInfo["role"] = "both"): WorkerInfo =>
    worker({ id: workerId(id), role, traits: { servesWhole: true } });

  it("is not chosen while another takes its requests; where all are, all may be", () => {
    const both = [as("a"), as("b")];
    expect(ready(both)).toEqual(["a", "b"]);
    expect(ready(both, "a")).toEqual(["b"]);
    expect(ready(both, "a", "b")).toEqual(["a", "b"]);
  });

  it("is one whose host was not heard lately, too", () => {
    const silent = { ...as("a"), unheard: "no word from it" };
    expect(ready([silent, as("b")])).toEqual(["b"]);
    expect(ready([silent])).toEqual(["a"]);
  });

  // The one prefill engine failed, and requests were refused although it might have answered the next.
  it("is kept where it is the last of its role, and nobody serves requests whole", () => {
    const parts = [as("p", "prefill"), as("d1", "decode"), as("d2", "decode")];
    expect(ready(parts, "p")).toEqual(["p", "d1", "d2"]);
    expect(ready(parts, "d1")).toEqual(["p", "d2"]);
    expect(ready([...parts, as("b")], "p", "d1")).toEqual(["d2", "b"]);
  });
});

describe("findGroup()", () => {
  // The agent's clean stop took its engines out, and clients got 404 instead of 503 with Retry-After.
  it("gives NO_WORKER for a model whose engines were taken out, MODEL_NOT_FOUND for one that never was", () => {
    const directory = createMemoryDirectory();
    const fleet = new Fleet(directory, () => {});
    expect(codeOf(() => findGroup(fleet, "m"))).toBe("NO_WORKER");
    directory.set(worker());
    directory.set(worker({ id: workerId("n/other"), models: ["other"] }));
    expect(findGroup(fleet, "m").ready).toHaveLength(1);
    directory.remove(workerId("n/m"));
    expect(codeOf(() => findGroup(fleet, "m"))).toBe("NO_WORKER");
    expect(codeOf(() => findGroup(fleet, "never"))).toBe("MODEL_NOT_FOUND");
    directory.set(worker());
    expect(findGroup(fleet, "m").ready).toHaveLength(1);
  });
});
