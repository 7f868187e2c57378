import { describe, expect, it } from "vitest";
import { nodeId, workerId } from "../core/ids.ts";
import type { WorkerInfo } from "../core/worker.ts";
import { workerFromBytes, workerFromMessage, workerToBytes, workerToMessage } from "./worker-message.ts";

const worker: WorkerInfo = {
  id: workerId("n/m"),
  node: nodeId("n"),
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
};

describe("workerFromMessage()", () => {
  it("workerFromMessage() gives back how an engine is relayed to, and what is measured of it", () => {
    for (const more of [
      {},
      { relay: { path: "/cgn/relay/n%2Fm", always: true } },
      { relay: { path: "/cgn/relay/n%2Fm%23dp1", always: false }, figures: { powerHeadroom: 0, kvFree: 1 } },
      { figures: { powerHeadroom: 0.25, powerWatts: 300, kvFree: 0.7 } },
      { figures: {} },
    ]) {
      expect(workerFromBytes(workerToBytes({ ...worker, ...more }))).toEqual({ ...worker, ...more });
    }
  });

  it("workerFromMessage() takes no relay path that leads elsewhere", () => {
    for (const path of ["", "//evil/x", "http://evil", "/a b", "@evil/x"]) {
      const message = workerToMessage({ ...worker, relay: { path, always: true } });
      expect(() => workerFromMessage(message)).toThrow(/relay.path is/);
    }
  });
});
