import { nodeId, workerId } from "./ids.ts";
import type { WorkerInfo } from "./worker.ts";

/** A worker for tests; `over` replaces fields. */
export function sampleWorker(id: string, over: Partial<WorkerInfo> = {}): WorkerInfo {
  return {
    id: workerId(id),
    node: nodeId("node1"),
    kind: "vllm",
    traits: {},
    url: "http://127.0.0.1:8000",
    models: ["m"],
    role: "both",
    kv: { type: "history", entries: 4 },
    tokenizer: {},
    state: "ready",
    reason: "",
    epoch: 1,
    ...over,
  };
}
