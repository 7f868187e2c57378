import { afterEach, describe, expect, it } from "vitest";
import { nodeId, workerId } from "../../src/core/ids.ts";
import type { WorkerDirectory, WorkerInfo } from "../../src/core/worker.ts";
import { type RequestRow, readCapture } from "../../src/kvcached/capture-rows.ts";
import { createKvcached, type Kvcached } from "../../src/kvcached/service.ts";
import { DEFAULT_SOURCE_POLICY } from "../../src/kvcached/source-state.ts";
import {
  type FakePublisher,
  type FakePublisherOptions,
  REAL_CLOCK,
  startFakePublisher,
  until,
} from "../../src/kvcached/testing/fake-publisher.ts";
import { SMOLLM2, sglangLive, vllmRun } from "../../src/kvcached/testing/fixtures.ts";
import { createVocabularies } from "../../src/kvcached/vocabularies.ts";
import { createMetrics } from "../../src/telemetry/metrics.ts";

const { renderer } = await createVocabularies({}).of({ models: [], tokenizer: { dir: SMOLLM2 } });
const run = await readCapture(vllmRun("sha256_cbor-seed0-int"));
const chats = run.requests.filter((row): row is Extract<RequestRow, { kind: "chat" }> => row.kind === "chat");
/** Payloads of one process's messages 0 to 11, and of the restarted one's message 0. */
const payloads = run.frames.map((f) => f.payload as Uint8Array);
const ID = workerId("node/0");

const ends: (() => void)[] = [];
afterEach(() => {
  for (const end of ends.splice(0).reverse()) end();
});

async function publisher(options: FakePublisherOptions = {}): Promise<FakePublisher> {
  const made = await startFakePublisher(options);
  ends.push(() => made.close());
  return made;
}

function service(over: Partial<Parameters<typeof createKvcached>[0]> = {}): Kvcached {
  const policy = { ...DEFAULT_SOURCE_POLICY, replayMs: 500, checkMs: 1_000, silentMs: 60_000, maxPending: 1_000 };
  const made = createKvcached({ clock: REAL_CLOCK, capBytes: 2 ** 26, seed: 1, env: {}, policy, ...over });
  ends.push(() => made.close());
  return made;
}

function worker(from: FakePublisher, over: Partial<WorkerInfo> = {}): WorkerInfo {
  return {
    id: ID,
    node: nodeId("node"),
    kind: "vllm",
    traits: {},
    url: "http://127.0.0.1:1",
    models: ["smol"],
    role: "both",
    blockTokens: 32,
    kv: { type: "events", endpoint: from.endpoint, replay: from.replay, topic: "", dpRank: 0 },
    tokenizer: { dir: SMOLLM2 },
    state: "ready",
    reason: "",
    epoch: 1,
    ...over,
  };
}

function promptOf(body: object): Uint8Array {
  const rendered = renderer?.render(body);
  if (rendered === undefined || !("bytes" in rendered)) throw new Error("not rendered");
  return rendered.bytes;
}

const prompt = promptOf(chats[0]?.body ?? {});
const held = (kv: Kvcached, bytes = prompt) => kv.match({ model: "smol", root: "", prompt: bytes })[0]?.tokens ?? 0;
const source = (kv: Kvcached) => kv.sources()[0];

describe("createKvcached", () => {
  it("createKvcached() learns from the replay what was published before, then from live messages", async () => {
    const engine = await publisher({ topic: "kv@smol" });
    await engine.publish(payloads[0] as Uint8Array);
    const metrics = createMetrics({ processMetrics: false });
    const kv = service({ metrics });
    kv.register(worker(engine));
    await until(() => held(kv) === 96);
    expect(kv.match({ model: "other", root: "", prompt })).toEqual([]);
    for (const payload of payloads.slice(1, 3)) await engine.publish(payload);
    const third = promptOf(chats[3]?.body ?? {});
    await until(() => held(kv, third) === 128);
    expect(source(kv)).toMatchObject({
      type: "events",
      state: "live",
      detail: "",
      lastSequence: 2,
      gaps: 0,
      malformed: 0,
    });
    expect(kv.stats()).toMatchObject({ workers: 1 });
    const scraped = await metrics.text();
    expect(scraped).toContain('cgn_kvcached_events_total{worker="node/0",type="stored"} 3');
    expect(scraped).toContain('cgn_kvcached_source_live{worker="node/0"} 1');
    expect(scraped).toMatch(/cgn_kvcached_lookups_total\{result="hit"\} [1-9]/);
  });

  it("createKvcached() fills a gap, with engines that leave the topic out of replays too", async () => {
    const engine = await publisher({ replayTopic: false });
    const kv = service();
    kv.register(worker(engine));
    await engine.publish(payloads[0] as Uint8Array);
    await until(() => source(kv)?.lastSequence === 0);
    await engine.publish(payloads[1] as Uint8Array, true);
    await engine.publish(payloads[2] as Uint8Array);
    await until(() => source(kv)?.lastSequence === 2);
    expect(source(kv)).toMatchObject({ gaps: 1, restarts: 0, blocksStored: 5 });
  });

  it("createKvcached() forgets a restarted engine's blocks before it publishes anything", async () => {
    const first = await publisher();
    const kv = service();
    kv.register(worker(first));
    await first.publish(payloads[0] as Uint8Array);
    await until(() => held(kv) === 96);
    first.close();
    const second = await publisher({ endpoint: first.endpoint, replay: first.replay });
    await until(() => held(kv) === 0);
    expect(source(kv)?.restarts).toBe(1);
    await second.publish(payloads.at(-1) as Uint8Array);
    await until(() => held(kv) === 96);
  });

  it("createKvcached() finds a message that was lost with nothing after it", async () => {
    const engine = await publisher();
    const kv = service();
    kv.register(worker(engine));
    await engine.publish(payloads[0] as Uint8Array);
    await until(() => held(kv) === 96);
    await engine.publish(payloads[1] as Uint8Array, true);
    await until(() => source(kv)?.lastSequence === 1);
  });

  it("createKvcached() counts garbage and says that it is no event publisher", async () => {
    const engine = await publisher();
    const kv = service();
    kv.register(worker(engine));
    await engine.publish(payloads[0] as Uint8Array);
    await until(() => held(kv) === 96);
    await engine.garbage([Buffer.from("hello"), Buffer.from("there")]);
    await until(() => source(kv)?.malformed === 1);
    expect(source(kv)?.detail).toContain("no KV event message");
    await engine.publish(Buffer.from([0xc1]));
    await until(() => source(kv)?.malformed === 2);
    expect(held(kv)).toBe(0);
  });

  it("createKvcached() leaves a publisher of rubbish alone, follows what is sent meanwhile, and comes back", async () => {
    // Broke: thousands of undecodable messages were taken in one by one, and the process did nothing else.
    const engine = await publisher();
    const metrics = createMetrics({ processMetrics: false });
    const kv = service({ metrics });
    kv.register(worker(engine));
    await engine.publish(payloads[0] as Uint8Array);
    await until(() => held(kv) === 96);
    for (let i = 0; i < 40; i++) await engine.publish(Buffer.from([0xc1]));
    await until(() => source(kv)?.state === "failed");
    expect(source(kv)?.detail).toContain("most of its messages make no sense");
    expect(source(kv)?.detail).toContain("Cannot read KV events of vLLM: the batch is no list");
    expect(held(kv)).toBe(0);
    kv.sent(ID, { model: "smol", root: "", prompt });
    expect(kv.match({ model: "smol", root: "", prompt })[0]).toMatchObject({ source: "history" });
    expect(await metrics.text()).toMatch(/cgn_kvcached_events_malformed_total\{worker="node\/0"\} 3\d/);
    engine.forget(41);
    await until(() => source(kv)?.state === "live");
    expect(held(kv)).toBe(0);
    await engine.publish(payloads[0] as Uint8Array);
    await until(() => held(kv) === 96);
  });

  it("createKvcached() says when the announced block size is not the engine's", async () => {
    const engine = await publisher();
    const kv = service();
    kv.register(worker(engine, { blockTokens: 16 }));
    await engine.publish(payloads[0] as Uint8Array);
    await until(() => held(kv) === 96);
    expect(source(kv)?.detail).toBe("block size differs: announced 16 tokens, events say 32, which is used");
  });

  it("createKvcached() without a vocabulary says what to do and follows what is sent", async () => {
    const engine = await publisher();
    const kv = service();
    kv.register(worker(engine, { tokenizer: {} }));
    await until(() => source(kv)?.state === "failed");
    expect(source(kv)?.detail).toContain('Set [models."smol"].tokenizer');
    kv.sent(ID, { model: "smol", root: "", prompt });
    expect(kv.match({ model: "smol", root: "", prompt })[0]).toMatchObject({ worker: ID, source: "history" });
  });

  it("createKvcached() says when token ids are not the vocabulary's", async () => {
    const engine = await publisher();
    const kv = service();
    kv.register(worker(engine, { tokenizer: { bytes: true } }));
    await engine.publish(payloads[0] as Uint8Array);
    await until(() => source(kv)?.detail.includes("the vocabulary lacks") ?? false);
  });

  it("observe() measures the truth and takes back what the engine did not hold", async () => {
    const engine = await publisher();
    const kv = service();
    kv.register(worker(engine));
    await engine.publish(payloads[0] as Uint8Array);
    await until(() => held(kv) === 96);
    const query = { model: "smol", root: "", prompt };
    kv.sent(ID, query);
    kv.observe({ worker: ID, epoch: 1, ...query, cachedTokens: 96, predictedTokens: 96 });
    expect(held(kv)).toBe(96);
    kv.sent(ID, query);
    kv.observe({ worker: ID, epoch: 0, ...query, cachedTokens: 0, predictedTokens: 96 });
    expect(held(kv)).toBe(96);
    kv.sent(ID, query);
    kv.observe({ worker: ID, epoch: 1, ...query, cachedTokens: 64, predictedTokens: 96 });
    expect(held(kv)).toBe(64);
    expect(source(kv)).toMatchObject({ predictedTokens: 192, reportedTokens: 160 });
  });

  it("agentNotice() empties a worker at once", async () => {
    const engine = await publisher();
    const kv = service();
    kv.register(worker(engine));
    await engine.publish(payloads[0] as Uint8Array);
    await until(() => held(kv) === 96);
    kv.agentNotice(ID, "reset");
    expect(held(kv)).toBe(0);
  });

  it("follow() forgets a worker that is down or has a new epoch, and keeps one that only drains", async () => {
    const engine = await publisher();
    await engine.publish(payloads[0] as Uint8Array);
    let tell: (list: readonly WorkerInfo[]) => void = () => {};
    const directory: WorkerDirectory = {
      list: () => [worker(engine)],
      subscribe(listener) {
        tell = listener;
        return () => {};
      },
    };
    const kv = service();
    kv.follow(directory);
    await until(() => held(kv) === 96);
    tell([worker(engine, { state: "draining" })]);
    expect(held(kv)).toBe(96);
    tell([worker(engine, { epoch: 2 })]);
    expect(held(kv)).toBe(0);
    await until(() => held(kv) === 96);
    // Broke: what a hung engine held was forgotten, though it came back with all of it.
    tell([worker(engine, { epoch: 2, state: "down", alive: true })]);
    expect(held(kv)).toBe(96);
    tell([worker(engine, { epoch: 2 })]);
    expect(held(kv)).toBe(96);
    tell([worker(engine, { epoch: 2, state: "down" })]);
    expect(held(kv)).toBe(0);
    expect(kv.sources()).toEqual([]);
    // An agent registers the worker as it is, down or not.
    kv.register(worker(engine, { epoch: 2 }));
    await until(() => held(kv) === 96);
    kv.register(worker(engine, { epoch: 1, state: "down" }));
    expect(held(kv)).toBe(96);
    kv.register(worker(engine, { epoch: 2, state: "down" }));
    expect(kv.sources()).toEqual([]);
  });

  it("createKvcached() matches what a live SGLang published (page size 16)", async () => {
    const engine = await publisher();
    // Message 0, AllBlocksCleared at boot, was sent before the capture began; 6 is a flush.
    const cleared = sglangLive().find((m) => m.seq === 6)?.payload as Uint8Array;
    await engine.publish(cleared, true);
    const kv = service();
    const plain = promptOf({
      messages: [
        { role: "system", content: "You are a helpful assistant." },
        { role: "user", content: "What is the capital of France?" },
      ],
    });
    kv.register(worker(engine, { kind: "sglang", blockTokens: 16 }));
    for (const m of sglangLive().filter((m) => m.seq < 6)) await engine.publish(m.payload);
    await until(() => source(kv)?.lastSequence === 5);
    // chat_again.json: 27 prompt tokens, cached_tokens 16.
    expect(held(kv, plain)).toBe(16);
    await engine.publish(cleared);
    await until(() => source(kv)?.lastSequence === 6);
    expect(held(kv, plain)).toBe(0);
    for (const m of sglangLive().filter((m) => m.seq > 6)) await engine.publish(m.payload);
    await until(() => source(kv)?.lastSequence === 10);
    expect(source(kv)).toMatchObject({ state: "live", malformed: 0 });
  });
});
