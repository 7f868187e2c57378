import { afterEach, describe, expect, it } from "vitest";
import { nodeId, workerId } from "../src/core/ids.ts";
import { rootKey } from "../src/core/prefix-knowledge.ts";
import type { WorkerInfo } from "../src/core/worker.ts";
import { findEngine } from "../src/engines/registry.ts";
import { createKvcached, type Kvcached } from "../src/kvcached/service.ts";
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
} from "../src/sim/testing/sim-client.ts";
import { renderChat } from "../src/sim/tokens.ts";
import type { SimServer } from "../src/sim/wire/sim-server.ts";

afterEach(closeAll);

const ID = workerId("node/0");

interface Chat {
  readonly messages: { role: string; content: string }[];
  readonly salt: string;
}

/** Small and repeatable: numbers below `n`. */
function dice(seed: number): (n: number) => number {
  let state = seed;
  return (n) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * n);
  };
}

/** A kvcached that follows one simulated engine, as the agent would announce it. */
async function followed(kind: "vllm" | "sglang", server: SimServer): Promise<Kvcached> {
  const engine = findEngine(kind);
  const sources = engine.probe.kvSources!;
  const body = await (await fetch(`${server.url}${sources.path}`)).text();
  const worker: WorkerInfo = {
    id: ID,
    node: nodeId("node"),
    kind,
    traits: {},
    url: server.url,
    models: ["sim"],
    role: "both",
    blockTokens: 16,
    kv: sources.parse(body, "127.0.0.1")[0]!,
    tokenizer: { bytes: true },
    state: "ready",
    reason: "",
    epoch: 1,
  };
  const kvcached = track(createKvcached({ clock: deps.clock, capBytes: 2 ** 26, seed: 1, env: {} }));
  kvcached.register(worker);
  await until(() => kvcached.sources()[0]?.state === "live");
  return kvcached;
}

/** Wait until kvcached has seen all that the engine sent. */
async function caughtUp(kvcached: Kvcached, server: SimServer): Promise<void> {
  const sent = server.engine.publisher!.nextSeq;
  await until(() => (kvcached.sources()[0]?.lastSequence ?? -1) >= sent - 1);
}

async function play(kind: "vllm" | "sglang", server: SimServer, kvcached: Kvcached, requests: number) {
  const roll = dice(7);
  const chats: Chat[] = [];
  const wrong: unknown[] = [];
  let hits = 0;
  for (let i = 0; i < requests; i++) {
    if (chats.length < 4 || roll(4) === 0) {
      const system = `You are assistant number ${roll(3)}. ${"Be brief, exact and kind. ".repeat(roll(4))}`;
      chats.push({ messages: [{ role: "system", content: system }], salt: roll(4) === 0 ? "tenant-a" : "" });
    }
    const chat = chats[roll(chats.length)]!;
    chat.messages.push({ role: "user", content: `Question ${i}: ${"why, Größe, 東京? ".repeat(1 + roll(3))}` });
    const rendered = renderChat(kind, chat);
    if (!("bytes" in rendered)) throw new Error(rendered.reason);
    await caughtUp(kvcached, server);
    const root = rootKey("", chat.salt);
    const found = kvcached.match({ model: "sim", root, prompt: rendered.bytes })[0]?.tokens ?? 0;
    // An engine never takes a whole prompt from its cache: the last token's block is computed.
    const predicted = Math.min(found, Math.floor((rendered.bytes.length - 1) / 16) * 16);
    const body = { model: "sim", messages: chat.messages, max_tokens: 5 + roll(60), cache_salt: chat.salt || null };
    const { json } = await post(server, "/v1/chat/completions", body);
    const reported = json.usage.prompt_tokens_details.cached_tokens;
    if (predicted !== reported) wrong.push({ i, predicted, reported });
    if (reported > 0) hits++;
    chat.messages.push({ role: "assistant", content: json.choices[0].message.content });
  }
  return { wrong, hits };
}

describe.each([
  { kind: "vllm" as const, start: vllm },
  { kind: "sglang" as const, start: sglang },
])("kvcached on a simulated $kind", ({ kind, start }) => {
  it("predicts the cached tokens that the engine reports, request for request, while blocks are evicted", {
    timeout: 30_000,
  }, async () => {
    const [port, replay] = [await freePort(), await freePort()];
    const server = await start([...eventsFlag(port, replay), "--sim-blocks", "400"]);
    // What was stored before kvcached came is known by replay.
    await post(server, "/v1/chat/completions", { model: "sim", messages: [{ role: "user", content: "early" }] });
    const kvcached = await followed(kind, server);
    const { wrong, hits } = await play(kind, server, kvcached, 120);
    expect(wrong).toEqual([]);
    expect(hits).toBeGreaterThan(40);
    expect(server.engine.loop.model.cachedBlocks).toBeGreaterThan(300);
  });
});
