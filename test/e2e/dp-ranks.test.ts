import { createServer } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { createMemoryDirectory } from "../../src/cluster/memory-directory.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import { ENGINES } from "../../src/engines/registry.ts";
import { createKvcached } from "../../src/kvcached/service.ts";
import { createRouter } from "../../src/router/create-router.ts";
import { watchEngines } from "../../src/router/engine-watch.ts";
import { createModelTemplates } from "../../src/router/model-templates.ts";
import { closeAll, deps, eventsFlag, freePort, sglang, track, until, vllm } from "../../src/sim/testing/sim-client.ts";
import { createMetrics } from "../../src/telemetry/metrics.ts";

afterEach(closeAll);

/** A router with its kvcached in front of engines that it was only given the addresses of. */
async function inFrontOf(url: string) {
  const { clock } = deps;
  const directory = createMemoryDirectory();
  const kvcached = track(createKvcached({ clock, capBytes: 2 ** 24, seed: 1, env: {} }));
  kvcached.follow(directory);
  const templates = createModelTemplates({ clock, env: {}, log: SILENT_LOG });
  const router = createRouter({
    settings: {
      listenHttp: { host: "127.0.0.1", port: 0 },
      listenAdmin: { host: "127.0.0.1", port: 0 },
      nodeId: "test",
      policy: "ttft",
      maxBodyBytes: 64 * 1024,
      scoreWeights: { kv: 0.55, load: 0.25, power: 0.1, capacity: 0.1 },
      admission: {},
      loadWait: { timeoutMs: 10_000, keepAliveMs: 5_000 },
    },
    directory,
    knowledge: kvcached,
    renderers: templates,
    clock,
    log: SILENT_LOG,
    metrics: createMetrics({ processMetrics: false }),
  });
  track({ close: () => router.close() });
  await router.start();
  const watch = track(
    watchEngines({
      specs: [{ url, tokenizer: {} }],
      engines: ENGINES,
      directory,
      clock,
      log: SILENT_LOG,
    }),
  );
  await watch.first;
  return { kvcached, url: `http://${router.address.host}:${router.address.port}` };
}

describe.each([
  { kind: "vllm", start: vllm, flag: "--data-parallel-size", model: "sim" },
  { kind: "sglang", start: sglang, flag: "--dp-size", model: "smollm2" },
])("a simulated $kind with two data-parallel ranks", ({ start, flag, model }) => {
  it("is two workers: each chat goes back to the rank that holds its prefix, and is predicted exactly", {
    timeout: 20_000,
  }, async () => {
    const [port, replay] = await freePairs();
    const engine = await start([...eventsFlag(port, replay), flag, "2"]);
    const { kvcached, url } = await inFrontOf(engine.url);
    await until(() => kvcached.sources().filter((source) => source.state === "live").length === 2);
    const ids = kvcached.sources().map((source) => source.worker);
    expect(ids[1]).toBe(`${ids[0]}#dp1`);

    const ask = async (messages: object[]) => {
      const reply = await fetch(`${url}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ model, max_tokens: 8, messages }),
      });
      const text = await reply.text();
      if (!reply.ok) throw new Error(text);
      const json = JSON.parse(text) as { usage: { prompt_tokens_details: { cached_tokens: number } } };
      return {
        status: reply.status,
        predicted: Number(reply.headers.get("x-cgn-predicted-cached-tokens")),
        cached: json.usage.prompt_tokens_details.cached_tokens,
      };
    };
    const first = (n: number) => [{ role: "user", content: `Chat number ${n}. ${"Tell me more of it. ".repeat(10)}` }];
    const chats = await Promise.all(Array.from({ length: 8 }, (_, n) => ask(first(n))));
    const done = engine.engine.ranks.map(({ publisher }) => publisher!.nextSeq);
    await until(() => kvcached.sources().every((source, i) => source.lastSequence >= done[i]! - 1));
    const finished = () => engine.engine.ranks.map(({ loop }) => loop.model.counters.finished.length);
    const after = finished();
    expect(Math.min(...after)).toBeGreaterThan(0);
    for (const n of chats.keys()) {
      const again = await ask([
        ...first(n),
        { role: "assistant", content: "Yes." },
        { role: "user", content: "Go on" },
      ]);
      expect(again).toMatchObject({ status: 200, predicted: again.cached });
      expect(again.cached).toBeGreaterThan(100);
    }
    expect(finished()).toEqual(after.map((chats) => 2 * chats));
  });
});

/** Two ports whose next ones are free too: each rank takes the configured port plus its number. */
async function freePairs(): Promise<[number, number]> {
  const pairs: number[] = [];
  for (let i = 0; i < 50 && pairs.length < 2; i++) {
    const port = await freePort();
    if (!pairs.some((pair) => Math.abs(pair - port) < 2) && (await isFree(port + 1))) pairs.push(port);
  }
  return pairs as [number, number];
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer().once("error", () => resolve(false));
    probe.listen(port, "127.0.0.1", () => probe.close(() => resolve(true)));
  });
}
