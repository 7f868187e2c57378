import { describe, expect, it } from "vitest";
import { sampleWorker } from "../core/worker.case.ts";
import { workerFromBytes, workerFromMessage, workerToBytes, workerToMessage } from "./worker-message.ts";

const worker = sampleWorker("n/m");

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
