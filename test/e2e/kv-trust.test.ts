import { afterEach, describe, expect, it } from "vitest";
import type { Clock } from "../../src/core/clock.ts";
import { nodeId, workerId } from "../../src/core/ids.ts";
import type { Log } from "../../src/core/log.ts";
import { rootKey } from "../../src/core/prefix-knowledge.ts";
import type { WorkerInfo } from "../../src/core/worker.ts";
import { type RequestRow, readCapture } from "../../src/kvcached/capture-rows.ts";
import { createKvcached, type Kvcached } from "../../src/kvcached/service.ts";
import { REAL_CLOCK, startFakePublisher, until } from "../../src/kvcached/testing/fake-publisher.ts";
import { SMOLLM2, vllmRun } from "../../src/kvcached/testing/fixtures.ts";
import { createVocabularies } from "../../src/kvcached/vocabularies.ts";
import { createMetrics } from "../../src/telemetry/metrics.ts";

const ends: (() => void)[] = [];
afterEach(() => {
  for (const end of ends.splice(0).reverse()) end();
});

const ID = workerId("node/0");
const INFO: WorkerInfo = {
  ...{ id: ID, node: nodeId("node"), kind: "vllm", traits: {}, url: "http://127.0.0.1:1", models: ["smol"] },
  ...{ role: "both", blockTokens: 32, tokenizer: { dir: SMOLLM2 }, state: "ready", reason: "", epoch: 1 },
  kv: { type: "events", endpoint: "tcp://127.0.0.1:1", topic: "", dpRank: 0 },
};

function kept(service: Kvcached): Kvcached {
  ends.push(() => service.close());
  return service;
}

const cached = (service: Kvcached, prompt: Uint8Array): number =>
  service.match({ model: "smol", root: rootKey("", ""), prompt })[0]?.tokens ?? 0;

describe("a source's truth", () => {
  it("predicts what a hot model's engine reported, with generated tokens checked in their thread", async () => {
    const { frames, requests } = await readCapture(vllmRun("chats-hot"));
    const { renderer } = await createVocabularies({}).of({ models: [], tokenizer: { dir: SMOLLM2 } });
    const chats = new Map(requests.flatMap((row) => (row.kind === "chat" ? [[row.n ?? -1, row] as const] : [])));
    const publisher = await startFakePublisher({});
    ends.push(() => publisher.close());
    const service = kept(createKvcached({ clock: REAL_CLOCK, capBytes: 2 ** 26, seed: 1, env: {} }));
    const { endpoint, replay } = publisher;
    service.register({ ...INFO, kv: { type: "events", endpoint, replay, topic: "", dpRank: 0 } });
    await until(() => service.sources()[0]?.canonicity?.state === "checking");
    await until(() => service.sources()[0]?.state === "live");
    const rows = [...frames.map((frame) => ({ kind: "frame" as const, ...frame })), ...requests];
    rows.sort((a, b) => a.t - b.t);
    const promptOf = (chat: Extract<RequestRow, { kind: "chat" }>): Uint8Array => {
      const rendered = renderer?.render(chat.body ?? {});
      return rendered !== undefined && "bytes" in rendered ? rendered.bytes : new Uint8Array();
    };
    let [asked, published] = [0, 0];
    for (const row of rows) {
      if (row.kind === "frame") {
        await publisher.publish(row.payload as Uint8Array);
        published++;
        await until(() => (service.sources()[0]?.lastSequence ?? -1) >= published - 1);
      } else if (row.kind === "begin" && chats.has(row.n)) {
        const chat = chats.get(row.n)!;
        // Verdicts come some milliseconds after the blocks.
        await until(() => cached(service, promptOf(chat)) === chat.cachedTokens);
        if (++asked >= 40) break;
      } else if (row.kind === "chat") {
        const [prompt, answer] = [promptOf(row), Buffer.from(row.answer ?? "")];
        const figures = { predictedTokens: row.cachedTokens ?? 0, cachedTokens: row.cachedTokens ?? 0 };
        service.observe({ worker: ID, epoch: 1, model: "smol", root: "", prompt, answer, ...figures });
      }
    }
    const [source] = service.sources();
    expect(source?.canonicity?.uncountedBlocks).toBeGreaterThan(5);
    expect(source?.alarms).toEqual([]);
    expect(source?.truth?.[1]).toMatchObject({ seconds: 600, requests: expect.any(Number) });
  });

  it("raises an alarm once for a publisher that never spoke: status, metric, one line in the log", async () => {
    const clock = handClock();
    const lines: unknown[] = [];
    const metrics = createMetrics({ processMetrics: false });
    const startCheck = () => ({ post: () => {}, close: () => {} });
    const log = recordingLog(lines);
    const service = kept(
      createKvcached({ ...{ clock, log, metrics, startCheck }, capBytes: 2 ** 22, seed: 1, env: {} }),
    );
    service.register(INFO);
    const prompt = new TextEncoder().encode("hello");
    for (let i = 0; i < 6; i++) {
      service.sent(ID, { model: "smol", root: "", prompt });
      service.observe({ worker: ID, epoch: 1, model: "smol", root: "", prompt, predictedTokens: 0 });
      clock.pass(6_000);
    }
    clock.pass(20_000);
    expect(service.sources()[0]?.alarms).toMatchObject([{ code: "PUBLISHER_MISSING" }]);
    expect(await metrics.text()).toContain('cgn_kvcached_alarm{worker="node/0",alarm="PUBLISHER_MISSING"} 1');
    expect(lines.filter((line) => line === "KV alarm")).toHaveLength(1);
    service.unregister(ID);
    expect(await metrics.text()).not.toContain("PUBLISHER_MISSING");
  });
});

function handClock(): Clock & { pass(ms: number): void } {
  let now = 0;
  let timers: { readonly at: number; readonly fn: () => void }[] = [];
  return {
    now: () => now,
    wall: () => now,
    after(ms, fn) {
      const timer = { at: now + ms, fn };
      timers.push(timer);
      return () => {
        timers = timers.filter((each) => each !== timer);
      };
    },
    pass(ms) {
      const end = now + ms;
      for (;;) {
        const next = timers.filter(({ at }) => at <= end).sort((a, b) => a.at - b.at)[0];
        if (next === undefined) break;
        timers = timers.filter((each) => each !== next);
        now = Math.max(now, next.at);
        next.fn();
      }
      now = end;
    },
  };
}

/** Keeps the messages of warnings. */
function recordingLog(lines: unknown[]): Log {
  const log: Log = {
    debug: () => {},
    info: () => {},
    warn: (message) => void lines.push(message),
    error: (message) => void lines.push(message),
    child: () => log,
    once: () => log,
  };
  return log;
}
