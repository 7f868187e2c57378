import { afterAll, describe, expect, it } from "vitest";
import { nodeId, workerId } from "../core/ids.ts";
import { rootKey } from "../core/prefix-knowledge.ts";
import type { WorkerInfo } from "../core/worker.ts";
import { MAX_PROMPT_TOKENS } from "../wire/kv-limits.ts";
import { conductorQuery } from "./conductor.ts";
import { createKvcached } from "./service.ts";
import { REAL_CLOCK, until } from "./testing/fake-publisher.ts";

const kv = createKvcached({ clock: REAL_CLOCK, capBytes: 2 ** 24, seed: 1, env: {} });
afterAll(() => kv.close());

function follow(id: string, over: Partial<WorkerInfo> = {}): void {
  kv.register({
    id: workerId(id),
    node: nodeId("n"),
    kind: "vllm",
    traits: {},
    url: "http://127.0.0.1:1",
    models: ["m"],
    role: "both",
    blockTokens: 4,
    kv: { type: "events", endpoint: "tcp://127.0.0.1:1", replay: "tcp://127.0.0.1:2", topic: "", dpRank: 0 },
    tokenizer: { bytes: true },
    state: "ready",
    reason: "",
    epoch: 1,
    ...over,
  });
}

const TEXT = "The archive keeps glass plates.";
const token_ids = [...Buffer.from(TEXT)];

/** What an engine would have told: so many blocks of `TEXT`. */
function hold(id: string, blocks: number, tier: "device" | "host" | "disk" = "device", root = ""): void {
  const worker = kv.workers().find((each) => each.id === id);
  const slot = [...Array(64).keys()].find((each) => kv.index.workerOf(each) === worker?.id) ?? -1;
  const names = BigUint64Array.from({ length: blocks }, (_, i) => BigInt(i + 1 + 100 * root.length));
  const ends = Uint32Array.from({ length: blocks }, (_, i) => 4 * (i + 1));
  kv.index.store(slot, { root, parent: undefined, names, bytes: Buffer.from(TEXT), ends, blockTokens: 4, tier });
}

follow("one");
follow("two");
follow("two#dp1", { rank: { index: 1, of: 2 } });
hold("one", 3);
hold("one", 5, "device", rootKey("", "secret"));
hold("two", 2, "host");
hold("two#dp1", 4, "disk");
await until(() =>
  kv.decodePrompt("m", [65]).then(
    () => true,
    () => false,
  ),
);

describe("conductorQuery", () => {
  it("conductorQuery() tells for each engine the longest prefix, by medium and by rank", async () => {
    expect(await conductorQuery(kv, { model: "m", token_ids })).toEqual({
      default: {
        one: { longest_matched: 12, GPU: 12, DP: { 0: 12 }, CPU: 0, DISK: 0 },
        two: { longest_matched: 16, GPU: 0, DP: { 0: 8, 1: 16 }, CPU: 8, DISK: 16 },
      },
    });
  });

  it("conductorQuery() keeps to the instance, the block size and the salt that are asked for", async () => {
    const ask = async (over: object) =>
      (await conductorQuery(kv, { model: "m", token_ids, tenant_id: 7, ...over }))["7"] ?? {};
    expect(Object.keys(await ask({ instance_id: "two" }))).toEqual(["two"]);
    expect(await ask({ block_size: 8 })).toEqual({});
    expect(await ask({ block_size: 4, cache_salt: "secret" })).toMatchObject({ one: { longest_matched: 20 } });
    expect(await ask({ lora_name: "sql" })).toEqual({});
    expect(await conductorQuery(kv, { model: "other", token_ids })).toEqual({ default: {} });
  });

  it("conductorQuery() says what is wrong with token ids that the model does not have", async () => {
    // Broke: -1, 1.5 and ids beyond the vocabulary were told to be a vocabulary that is not known yet.
    for (const id of [70_000, -1, 1.5, "65"]) {
      const query = { model: "m", token_ids: [65, id] as number[] };
      await expect(conductorQuery(kv, query)).rejects.toThrow(`token id ${id} at 1 is not in its vocabulary of`);
    }
  });

  it("conductorQuery() refuses more token ids than are taken before it looks at them, and lets others have their turn", async () => {
    // Broke: 3,000,000 ids held kvcached's event loop for seconds, and routers called it gone.
    const of = (length: number): number[] => new Array(length).fill(65);
    const looked = new Proxy(of(MAX_PROMPT_TOKENS + 1), {
      get: (ids, key) => {
        if (key !== "length") throw new Error("it was looked at");
        return ids.length;
      },
    });
    await expect(conductorQuery(kv, { model: "m", token_ids: looked })).rejects.toThrow(/at most 1048576 are taken/);
    let turns = 0;
    let asked = true;
    const turn = () => {
      turns++;
      if (asked) setImmediate(turn);
    };
    setImmediate(turn);
    const answer = await conductorQuery(kv, { model: "m", token_ids: of(MAX_PROMPT_TOKENS) });
    asked = false;
    expect(answer).toEqual({ default: {} });
    expect(turns).toBeGreaterThan(20);
  });
});
