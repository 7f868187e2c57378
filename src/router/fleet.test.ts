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
