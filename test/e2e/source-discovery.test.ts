import { afterEach, describe, expect, it } from "vitest";
import { nodeId, workerId } from "../../src/core/ids.ts";
import type { WorkerInfo } from "../../src/core/worker.ts";
import { createKvcached } from "../../src/kvcached/service.ts";
import {
  closeAll,
  deps,
  eventsFlag,
  freePort,
  post,
  sglang,
  track,
  until,
  vllm,
} from "../../src/sim/testing/sim-client.ts";

afterEach(closeAll);

/** An engine of which only the address is known: any server that speaks OpenAI's API. */
const anyServer = (url: string, more: Partial<WorkerInfo> = {}): WorkerInfo => ({
  id: workerId("node/0"),
  node: nodeId("node"),
  kind: "openai_compat",
  traits: {},
  url,
  models: ["sim"],
  role: "both",
  kv: { type: "history", entries: 16 },
  tokenizer: { bytes: true },
  state: "ready",
  reason: "",
  epoch: 1,
  ...more,
});

const service = () => track(createKvcached({ clock: deps.clock, capBytes: 2 ** 24, seed: 1, env: {} }));

describe.each([
  { kind: "vllm", start: vllm },
  { kind: "sglang", start: sglang },
])("kvcached, told of a $kind as an OpenAI server", ({ start }) => {
  it("finds its event source by asking it, and keeps to it when it is registered again", async () => {
    const engine = await start(eventsFlag(await freePort(), await freePort()));
    const kv = service();
    kv.register(anyServer(engine.url));
    expect(kv.sources()[0]).toMatchObject({ type: "history" });
    await until(() => kv.sources()[0]?.type === "events" && kv.sources()[0]?.state === "live");
    expect(kv.sources()[0]).toMatchObject({ origin: "engine" });
    await post(engine, "/v1/chat/completions", {
      model: "sim",
      messages: [{ role: "user", content: "Hello. ".repeat(20) }],
    });
    await until(() => (kv.sources()[0]?.blocksStored ?? 0) > 5);
    kv.register(anyServer(engine.url));
    expect(kv.sources()[0]).toMatchObject({ type: "events", state: "live" });
    expect(kv.stats().blocks).toBeGreaterThan(5);
  });
});

describe("kvcached, told of a server that publishes nothing", () => {
  it("follows it by what is sent", async () => {
    const engine = await vllm();
    const kv = service();
    kv.register(anyServer(engine.url));
    kv.register(anyServer("http://127.0.0.1:1", { id: workerId("node/gone") }));
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(kv.sources()).toMatchObject([
      { type: "history", state: "live" },
      { type: "history", state: "live" },
    ]);
  });
});
