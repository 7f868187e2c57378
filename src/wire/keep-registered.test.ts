import { describe, expect, it } from "vitest";
import { nodeId, workerId } from "../core/ids.ts";
import type { WorkerInfo } from "../core/worker.ts";
import { keepRegistered } from "./keep-registered.ts";

const worker = (id: string, state: WorkerInfo["state"] = "ready"): WorkerInfo => ({
  id: workerId(id),
  node: nodeId("n"),
  kind: "vllm",
  traits: {},
  url: "",
  models: ["m"],
  role: "both",
  kv: { type: "history", entries: 1 },
  tokenizer: {},
  state,
  reason: "",
  epoch: 1,
});

describe("keepRegistered", () => {
  it("keepRegistered() tells of workers as they come and go, and of all again after a while", () => {
    let list = [worker("a"), worker("b", "down")];
    let tell: (w: readonly WorkerInfo[]) => void = () => {};
    let due: (() => void) | undefined;
    const said: string[] = [];
    const end = keepRegistered({
      client: {
        register: async (w) => void said.push(`+${w.id}`),
        unregister: async (id) => void said.push(`-${id}`),
      },
      directory: {
        list: () => list,
        subscribe(listener) {
          tell = listener;
          return () => said.push("ended");
        },
      },
      clock: {
        now: () => 0,
        wall: () => 0,
        after(_ms, fn) {
          due = fn;
          return () => {
            due = undefined;
          };
        },
      },
      failed: () => {},
    });
    expect(said.splice(0)).toEqual(["+a"]);
    list = [worker("a", "down"), worker("b")];
    tell(list);
    expect(said.splice(0)).toEqual(["-a", "+b"]);
    due?.();
    expect(said.splice(0)).toEqual(["+b"]);
    end();
    expect(said).toEqual(["ended"]);
    expect(due).toBeUndefined();
  });
});
