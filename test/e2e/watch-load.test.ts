import { join } from "node:path";
import { encode } from "@msgpack/msgpack";
import { afterAll, expect, it } from "vitest";
import { nodeId, workerId } from "../../src/core/ids.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import { createMirror } from "../../src/kvcached/mirror.ts";
import { createKvcached } from "../../src/kvcached/service.ts";
import { REAL_CLOCK, startFakePublisher } from "../../src/kvcached/testing/fake-publisher.ts";
import { connectKv } from "../../src/wire/kv-client.ts";
import { kvRoutes } from "../../src/wire/kv-server.ts";
import { listenWire } from "../../src/wire/listen.ts";
import { scratch, until } from "../helpers/cgn-process.ts";

const WATCHERS = 10;
const MESSAGES = 600;
const BLOCKS = 64;
const BLOCK = 64;
const LOG_BYTES = 1024 * 1024;

const place = scratch();
const ends: (() => unknown)[] = [place.dispose];
afterAll(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

it("ten watchers keep up with an engine under load; one that stands still is cut, and costs no more than the bound", async () => {
  const engine = await startFakePublisher();
  ends.push(() => engine.close());
  const kv = createKvcached({ clock: REAL_CLOCK, capBytes: 2 ** 28, seed: 1, env: {}, watchLogBytes: LOG_BYTES });
  ends.push(() => kv.close());
  const uds = join(place.dir, "kv.sock");
  const server = await listenWire({ routes: kvRoutes(kv), uds });
  ends.push(() => server.close());
  const mirrors = Array.from({ length: WATCHERS }, (_, n) => {
    const client = connectKv({ address: { uds }, clock: REAL_CLOCK });
    ends.push(() => client.close());
    const made = { clients: [client], clock: REAL_CLOCK, log: SILENT_LOG, capBytes: 2 ** 26, name: `m${n}` };
    const mirror = createMirror(made);
    ends.push(() => mirror.close());
    return mirror;
  });
  const idle = connectKv({ address: { uds }, clock: REAL_CLOCK });
  ends.push(() => idle.close());
  const stop = new AbortController();
  ends.push(() => stop.abort());
  const still = idle.watch({ watcher: "still", sourcesOnly: false }, stop.signal)[Symbol.asyncIterator]();
  expect((await still.next()).done).toBe(false);
  kv.register({
    id: workerId("w"),
    node: nodeId("n"),
    kind: "vllm",
    traits: {},
    url: "http://127.0.0.1:1",
    models: ["m"],
    role: "both",
    blockTokens: BLOCK,
    kv: { type: "events", endpoint: engine.endpoint, replay: engine.replay, topic: "", dpRank: 0 },
    tokenizer: { bytes: true },
    state: "ready",
    reason: "",
    epoch: 1,
  });
  await until("live copies", 20_000, () =>
    mirrors.every((mirror) => mirror.status()[0]?.state === "live") ? true : undefined,
  );
  expect(kv.stats().watchers).toHaveLength(WATCHERS + 1);
  const cpu = process.cpuUsage();
  let text = "";
  for (let message = 0; message < MESSAGES; message++) {
    text = String(message).padEnd(BLOCKS * BLOCK, "The archive keeps glass plates and night logs. ");
    const names = Array.from({ length: BLOCKS }, (_, i) => message * BLOCKS + i + 1);
    await engine.publish(encode([message + 0.5, [["BlockStored", names, null, [...Buffer.from(text)], BLOCK, null]]]));
    // Engines do not publish faster than they compute; the copies share this process.
    if (message % 50 === 49) await new Promise((resolve) => setTimeout(resolve, 5));
  }
  const whole = MESSAGES * BLOCKS;
  await until("whole copies", 40_000, () =>
    mirrors.every((mirror) => mirror.status()[0]?.blocks === whole) ? true : undefined,
  );
  const { user, system } = process.cpuUsage(cpu);
  const figure = (user + system) / (whole * WATCHERS);
  console.log(`${WATCHERS} watchers, ${whole} blocks: ${figure.toFixed(2)} us of CPU a block and watcher, both ends`);
  const prompt = new TextEncoder().encode(text);
  for (const mirror of mirrors) {
    expect(mirror.match({ model: "m", root: "", prompt })).toEqual(kv.match({ model: "m", root: "", prompt }));
  }
  // It is told why once it reads on.
  await expect(async () => {
    while (!(await still.next()).done);
  }).rejects.toThrow(/too slow/);
  expect(kv.stats().watchers.filter(({ name }) => name === "still")).toEqual([]);
}, 90_000);
