import { mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import type { Clock } from "../core/clock.ts";
import { nodeId, workerId } from "../core/ids.ts";
import type { KvSourceStatus, KvStats } from "../core/kv-status.ts";
import type { MatchQuery, Outcome } from "../core/prefix-knowledge.ts";
import type { WorkerInfo } from "../core/worker.ts";
import { followAgent } from "./agent-client.ts";
import { agentRoutes } from "./agent-server.ts";
import { PrefixIndex } from "./gen/cgn/kv/v1/kv_pb.ts";
import { jsonMatchRoute } from "./json-match.ts";
import { connectKv } from "./kv-client.ts";
import { deltaToMessage, type KvDelta, type WatchedWorker } from "./kv-delta.ts";
import { type KvService, kvRoutes } from "./kv-server.ts";
import { listenWire } from "./listen.ts";
import type { EncodedDelta, WatchAsk, WatchMessage } from "./watch-message.ts";
import { workerFromMessage, workerToMessage } from "./worker-message.ts";

const dir = await mkdtemp(join(tmpdir(), "cgn-wire-"));
afterAll(() => rm(dir, { recursive: true }));
const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

const clock: Clock = {
  now: () => performance.now(),
  wall: () => Date.now(),
  after(ms, fn) {
    const timer = setTimeout(fn, ms);
    return () => clearTimeout(timer);
  },
};

const WORKER: WorkerInfo = {
  id: workerId("a/0"),
  node: nodeId("a"),
  kind: "vllm",
  traits: { reportsCachedTokens: true, tokenizesChats: true, textPartsJoin: " ", lacks: ["/score", "/pooling"] },
  url: "http://127.0.0.1:8000",
  models: ["m", "alias"],
  role: "prefill",
  blockTokens: 16,
  kv: { type: "events", endpoint: "tcp://127.0.0.1:5557", replay: "tcp://127.0.0.1:5558", topic: "t", dpRank: 1 },
  tokenizer: { dir: "/models/m" },
  state: "ready",
  reason: "answers",
  epoch: 3,
  maxModelTokens: 4096,
};

const STATUS: KvSourceStatus = {
  worker: WORKER.id,
  model: "m",
  type: "events",
  state: "live",
  detail: "",
  events: 5,
  blocks: 3,
  blocksStored: 4,
  blocksRemoved: 1,
  gaps: 0,
  restarts: 0,
  malformed: 0,
  lastSequence: 4,
  predictedTokens: 32,
  reportedTokens: 32,
  parity: "equal",
  truth: [],
  alarms: [],
};

const STATS: KvStats = {
  workers: 1,
  runs: 2,
  blocks: 3,
  bytes: 4,
  capBytes: 5,
  lookups: 6,
  hits: 7,
  tiers: { device: 3, host: 1, disk: 0, shared: 0 },
  snapshot: { path: "/x", state: "written", detail: "d", ageMs: 1500, bytes: 9, blocks: 3, restored: 1, dropped: 2 },
  watchers: [{ name: "router", state: "live", behindBytes: 10, connectedMs: 2000 }],
  instance: "one",
};

const WATCHED: WatchedWorker = {
  info: WORKER,
  knownBy: "history",
  alignTokens: 32,
  historyEntries: 4,
  history: new Uint8Array([1]),
  historyVersion: 7,
};

const QUERY = { model: "m", root: "r", prompt: new Uint8Array([1, 2, 3]) };

/** One of each kind. */
const DELTAS: readonly KvDelta[] = [
  { worker: WORKER.id, type: "followed", as: WATCHED },
  {
    worker: WORKER.id,
    type: "stored",
    blocks: {
      root: "r",
      parent: 5n,
      names: new BigUint64Array([1n, 2n ** 64n - 1n]),
      bytes: new Uint8Array([1, 2, 3]),
      ends: new Uint32Array([1, 3]),
      blockTokens: 16,
      tier: "host",
    },
  },
  { worker: WORKER.id, type: "removed", names: new BigUint64Array([1n]), tier: undefined },
  { worker: WORKER.id, type: "removed", names: new BigUint64Array([1n]), tier: "disk" },
  { worker: WORKER.id, type: "counted", names: new BigUint64Array([1n]), counted: false },
  { worker: WORKER.id, type: "corrected", root: "r", prompt: new Uint8Array([1]), tokens: 3, since: 4 },
  { worker: WORKER.id, type: "knowledge", knownBy: "unproved", alignTokens: 1 },
  {
    worker: WORKER.id,
    type: "note",
    note: { type: "unsent", worker: WORKER.id, query: QUERY, origin: { watcher: "w", note: 3 } },
  },
  {
    worker: WORKER.id,
    type: "note",
    note: {
      type: "observed",
      worker: WORKER.id,
      outcome: { worker: WORKER.id, epoch: 1, ...QUERY, predictedTokens: 5, cachedTokens: 0 },
    },
  },
  { worker: WORKER.id, type: "cleared" },
  { worker: WORKER.id, type: "dropped" },
];

/** All that a watch may say. */
const MESSAGES: readonly WatchMessage<EncodedDelta>[] = [
  { instance: "one", version: 4, sources: [STATUS] },
  { instance: "one", version: 4, part: { type: "begin", seed: 2 ** 32 - 1 } },
  { instance: "one", version: 4, part: { type: "worker", worker: WATCHED } },
  { instance: "one", version: 4, part: { type: "chunk", worker: WORKER.id, data: new Uint8Array([1, 2]) } },
  { instance: "one", version: 15, part: { type: "deltas", deltas: DELTAS.map(deltaToMessage) } },
  { instance: "one", version: 15, part: { type: "end" } },
];

/** A service that answers what it is told and remembers what it heard. */
function fakeService() {
  const heard: {
    registered: WorkerInfo[];
    sent: MatchQuery[];
    unsent: MatchQuery[];
    outcomes: Outcome[];
    asked: WatchAsk[];
  } = {
    asked: [],
    registered: [],
    sent: [],
    unsent: [],
    outcomes: [],
  };
  const listeners = new Set<() => void>();
  const service: KvService = {
    match: (query) => [
      { worker: WORKER.id, tokens: query.prompt.length, blocks: 1, bytes: 2, tier: "device", source: "events" },
    ],
    sent: (_worker, query) => void heard.sent.push(query),
    unsent: (_worker, query) => void heard.unsent.push(query),
    observe: (outcome) => void heard.outcomes.push(outcome),
    register: (worker) => void heard.registered.push(worker),
    unregister: (id) => id === WORKER.id,
    knowsModel: (model) => model === "m",
    sources: () => [STATUS],
    stats: () => STATS,
    hear(note) {
      if (note.type === "observed") heard.outcomes.push(note.outcome);
      else heard[note.type].push(note.query);
    },
    async *watch(ask, signal) {
      heard.asked.push(ask);
      for (const message of MESSAGES) yield message;
      const gone = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
      listeners.add(() => {});
      await gone;
      listeners.clear();
    },
    decodePrompt: async (_model, ids) => new Uint8Array(ids),
  };
  return { service, heard, listeners };
}

/** What `curl --unix-socket SOCKET -d BODY http://x/PATH` does. */
function curl(socketPath: string, path: string, body: string): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json" };
    const req = request({ socketPath, path, method: "POST", headers }, async (res) => {
      let text = "";
      for await (const chunk of res) text += chunk;
      resolve({ status: res.statusCode ?? 0, text });
    });
    req.once("error", reject);
    req.end(body);
  });
}

async function until(done: () => boolean): Promise<void> {
  for (let i = 0; i < 400 && !done(); i++) await new Promise((resolve) => setTimeout(resolve, 5));
  expect(done()).toBe(true);
}

describe("workerFromMessage", () => {
  it("workerFromMessage() gives back what workerToMessage() was given", () => {
    const { blockTokens: _, maxModelTokens: __, ...rest } = WORKER;
    const plain: WorkerInfo = {
      ...rest,
      kv: { type: "history", entries: 4 },
      tokenizer: { bytes: true },
      upstreamModel: "x",
    };
    const slots = { count: 4, minShare: 0.1, storeTokens: 65_536, emptiesFree: true, savesFree: true };
    const hung: WorkerInfo = { ...plain, state: "down", alive: true };
    const ruled: WorkerInfo = { ...plain, kv: { type: "history", entries: 4, slots, minTokens: 16 } };
    const ranked: WorkerInfo = {
      ...WORKER,
      traits: { rankHeader: "x-data-parallel-rank", rankMember: "routed_dp_rank" },
      rank: { index: 1, of: 4 },
    };
    const rankedPlain: WorkerInfo = { ...plain, rank: { index: 3, of: 4 } };
    for (const worker of [WORKER, plain, hung, ruled, ranked, rankedPlain])
      expect(workerFromMessage(workerToMessage(worker))).toEqual(worker);
  });

  it("workerFromMessage() names the field that is wrong", () => {
    expect(() => workerFromMessage({ ...workerToMessage(WORKER), kind: "vlm" })).toThrow(
      /kind is "vlm". Send one of vllm/,
    );
    expect(() => workerFromMessage({ ...workerToMessage(WORKER), eventsEndpoint: "" })).toThrow(/events_endpoint/);
  });

  it.each([
    "file:///etc/passwd",
    "tcp://nohost.invalid:99999",
    "tcp://h:0",
    "tcp://h",
    "tcp://:1",
    "tcp://*:5557",
    "h:5557",
    "ipc://",
    "tcp://h:1/x",
    "inproc://x",
  ])("workerFromMessage() takes no %s for a ZMQ address", (endpoint) => {
    // Broke: any text was taken, and the source was then "connecting" for ever.
    const message = workerToMessage(WORKER);
    expect(() => workerFromMessage({ ...message, eventsEndpoint: endpoint })).toThrow(/events_endpoint is/);
    expect(() => workerFromMessage({ ...message, replayEndpoint: endpoint })).toThrow(/replay_endpoint is/);
  });

  it("workerFromMessage() takes the ZMQ addresses that can be connected to, and http addresses of engines alone", () => {
    const message = workerToMessage(WORKER);
    for (const endpoint of ["tcp://10.0.0.1:65535", "tcp://[::1]:1", "tcp://a-b.c:5557", "ipc:///run/x.sock"])
      expect(workerFromMessage({ ...message, eventsEndpoint: endpoint }).kv).toMatchObject({ endpoint });
    expect(() => workerFromMessage({ ...message, url: "file:///etc/passwd" })).toThrow(/url is "file/);
  });
});

describe("listenWire", () => {
  it("listenWire() serves Connect and JSON on a Unix socket that only its owner may use", async () => {
    const uds = join(dir, "kv.sock");
    const { service, heard } = fakeService();
    const server = await listenWire({ routes: kvRoutes(service), uds });
    ends.push(() => server.close());
    expect((await stat(uds)).mode & 0o777).toBe(0o600);
    const stats = await curl(uds, "/cgn.kv.v1.PrefixIndex/Stats", "{}");
    expect(JSON.parse(stats.text)).toMatchObject({ workers: "1", hits: "7" });
    const bad = await curl(uds, "/cgn.kv.v1.PrefixIndex/Register", '{"worker":{"id":"x","kind":"nope"}}');
    expect(bad.status).toBe(400);
    expect(JSON.parse(bad.text).message).toContain('kind is "nope"');
    const missing = await curl(uds, "/cgn.kv.v1.PrefixIndex/Guess", "{}");
    expect([missing.status, JSON.parse(missing.text).code]).toEqual([404, "unimplemented"]);
    expect(JSON.parse(missing.text).message).toContain("/cgn.kv.v1.PrefixIndex/Stats");
    const ids = await curl(uds, "/cgn.kv.v1.PrefixIndex/Match", '{"model":"m","tokenIds":[1,2,3]}');
    expect(JSON.parse(ids.text).matches[0]).toMatchObject({ worker: "a/0", tokens: 3 });
    const client = connectKv({ address: { uds }, clock, matchTimeoutMs: 10_000 });
    ends.push(() => client.close());
    const query = { model: "m", root: "", prompt: new Uint8Array([1, 2]) };
    expect(await client.match(query)).toEqual(await service.match(query));
    await client.register(WORKER);
    expect(heard.registered).toEqual([WORKER]);
    expect(await client.sources()).toEqual([STATUS]);
    expect((await client.stats()).blocks).toBe(3);
    client.sent(WORKER.id, query);
    client.unsent?.(WORKER.id, query);
    client.observe({ worker: WORKER.id, epoch: 1, ...query, cachedTokens: 0, predictedTokens: 9 });
    await until(() => heard.sent.length === 1 && heard.unsent.length === 1 && heard.outcomes.length === 1);
    expect([heard.sent[0]?.prompt, heard.unsent[0]?.prompt]).toEqual([query.prompt, query.prompt]);
    expect(heard.outcomes[0]).toMatchObject({ cachedTokens: 0, predictedTokens: 9 });
    expect(heard.outcomes[0]).not.toHaveProperty("promptTokens");
  });

  it("listenWire() refuses calls that are too large, and wrong ones, with what is wrong", async () => {
    // Broke: a prompt of 40 MB held the event loop for 6.7 s; a match for a model that nobody serves looked like a miss;
    // whoever is not registered could be unregistered; and routers took a refusal for a kvcached that is gone.
    const uds = join(dir, "limits.sock");
    const server = await listenWire({ routes: kvRoutes(fakeService().service), uds });
    ends.push(() => server.close());
    const call = async (method: string, body: object) => {
      const answer = await curl(uds, `/cgn.kv.v1.PrefixIndex/${method}`, JSON.stringify(body));
      return [answer.status, JSON.parse(answer.text).message];
    };
    const prompt = (bytes: number) => Buffer.alloc(bytes, 65).toString("base64");
    expect((await call("Match", { model: "m", prompt: prompt(4 * 2 ** 20) }))[0]).toBe(200);
    expect(await call("Match", { model: "m", prompt: prompt(4 * 2 ** 20 + 1) })).toEqual([
      429,
      "Cannot match a prompt of 4194305 bytes: at most 4194304 are taken. Send its beginning",
    ]);
    for (const method of ["Match", "Observe", "Register"]) {
      expect(await call(method, { prompt: prompt(7 * 2 ** 20) })).toEqual([429, expect.stringContaining("8388608")]);
    }
    expect(await call("Match", { prompt: prompt(9) })).toEqual([400, expect.stringContaining("model is missing")]);
    expect(await call("Match", { model: "x" })).toEqual([404, expect.stringContaining('no worker serves "x"')]);
    expect(await call("Unregister", { worker: "x" })).toEqual([404, expect.stringContaining("not registered")]);
    expect(await call("Unregister", { worker: WORKER.id })).toEqual([200, undefined]);
    const client = connectKv({ address: { uds }, clock, matchTimeoutMs: 10_000 });
    ends.push(() => client.close());
    expect(await client.match({ model: "x", root: "", prompt: new Uint8Array(1) })).toEqual([]);
    expect(await client.match({ model: "m", root: "", prompt: new Uint8Array(5 * 2 ** 20) })).toEqual([]);
    await client.unregister(workerId("x"));
    expect(client.health()).toEqual({ ok: true, reason: "" });
    expect(await client.match({ model: "m", root: "", prompt: new Uint8Array(1) })).toHaveLength(1);
  });

  it("jsonMatchRoute() answers large matches as Connect answers small ones, right and wrong", async () => {
    // Broke: Connect reads 4 MiB of base64, or a million ids, in one go of 250 to 500 ms, and every other call waited.
    const uds = join(dir, "large.sock");
    const { service } = fakeService();
    const server = await listenWire({ routes: kvRoutes(service), uds, http: jsonMatchRoute(service) });
    ends.push(() => server.close());
    const call = async (body: object | string, root = "") => {
      const text = typeof body === "string" ? body : JSON.stringify({ ...body, root });
      const answer = await curl(uds, "/cgn.kv.v1.PrefixIndex/Match", text);
      return [answer.status, JSON.parse(answer.text)];
    };
    /** Too long for Connect's own reader to be asked. */
    const large = "r".repeat(80 * 1024);
    const prompt = Buffer.alloc(900, 65).toString("base64");
    const tokenIds = Array.from({ length: 300 }, (_, i) => i);
    for (const body of [
      { model: "m", prompt },
      { model: "m", tokenIds },
      { model: "m", token_ids: tokenIds },
      { model: "m", prompt, other: { of: [1] } },
      { model: "m" },
      { prompt },
      { model: "x", prompt },
      { model: "m", prompt, tokenIds },
    ]) {
      const small = await call(body);
      expect(await call(body, large), JSON.stringify(body)).toEqual(small);
    }
    const bad = { model: 7, prompt: "*", tokenIds: "x" };
    for (const [name, value] of Object.entries(bad)) {
      expect((await call({ model: "m", [name]: value }))[0]).toBe(400);
      const answer = await call({ model: "m", [name]: value }, large);
      expect(answer).toEqual([400, { code: "invalid_argument", message: expect.stringContaining(name) }]);
    }
    expect(await call(`{"root":"${large}"`)).toMatchObject([400, { code: "invalid_argument" }]);
    expect((await call({ model: "m", tokenIds: new Array(1_000_000).fill(123_456) }))[0]).toBe(200);
  });

  it("listenWire() serves gRPC over HTTP/2 on the same TCP port, and streams changes", async () => {
    const { service, listeners } = fakeService();
    const server = await listenWire({ routes: kvRoutes(service), tcp: { host: "127.0.0.1", port: 0 } });
    ends.push(() => server.close());
    const baseUrl = `http://127.0.0.1:${server.port}`;
    const grpc = createClient(PrefixIndex, createGrpcTransport({ baseUrl }));
    expect((await grpc.stats({})).blocks).toBe(3n);
    const client = connectKv({ address: { url: baseUrl }, clock, matchTimeoutMs: 10_000 });
    ends.push(() => client.close());
    expect((await client.stats()).blocks).toBe(3);
    const stop = new AbortController();
    const parts: unknown[] = [];
    try {
      for await (const reply of grpc.watch({ watcher: "go" }, { signal: stop.signal })) {
        parts.push(reply.part.case);
        if (parts.length === MESSAGES.length) stop.abort();
      }
    } catch {
      // Aborted by us.
    }
    expect(parts).toEqual([undefined, "begin", "worker", "chunk", "deltas", "end"]);
    await until(() => listeners.size === 0);
  });

  it("listenWire() takes over a socket file that nobody listens on, and no other", async () => {
    const uds = join(dir, "stale.sock");
    await writeFile(uds, "");
    const server = await listenWire({ routes: kvRoutes(fakeService().service), uds });
    ends.push(() => server.close());
    await expect(listenWire({ routes: () => {}, uds })).rejects.toThrow(/another process does/);
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, "127.0.0.1", resolve));
    ends.push(() => taken.close());
    const { port } = taken.address() as { port: number };
    await expect(listenWire({ routes: () => {}, tcp: { host: "127.0.0.1", port } })).rejects.toThrow(/in use/);
  });
});

describe("connectKv", () => {
  it("connectKv() gives a watch as the service gave it, with where the watcher stands", async () => {
    const uds = join(dir, "watch.sock");
    const { service, heard } = fakeService();
    const server = await listenWire({ routes: kvRoutes(service), uds });
    ends.push(() => server.close());
    const client = connectKv({ address: { uds }, clock, matchTimeoutMs: 10_000 });
    ends.push(() => client.close());
    const stop = new AbortController();
    const got: WatchMessage<KvDelta>[] = [];
    const from = { instance: "one", version: 4 };
    await expect(async () => {
      for await (const message of client.watch({ watcher: "router", from, sourcesOnly: false }, stop.signal)) {
        got.push(message);
        if (got.length === MESSAGES.length) stop.abort();
      }
    }).rejects.toThrow(/abort/i);
    expect(heard.asked).toEqual([{ watcher: "router", from, sourcesOnly: false }]);
    expect(got).toEqual(
      MESSAGES.map((m) => (m.part?.type === "deltas" ? { ...m, part: { type: "deltas", deltas: DELTAS } } : m)),
    );
  });

  it("connectKv() tells notes in their order in one call", async () => {
    const uds = join(dir, "notes.sock");
    const { service, heard } = fakeService();
    const server = await listenWire({ routes: kvRoutes(service), uds });
    ends.push(() => server.close());
    const client = connectKv({ address: { uds }, clock, matchTimeoutMs: 10_000 });
    ends.push(() => client.close());
    await client.tell(
      [1, 2, 3].map((n) => ({ type: "sent", worker: WORKER.id, query: { ...QUERY, root: String(n) } })),
    );
    expect(heard.sent.map((query) => query.root)).toEqual(["1", "2", "3"]);
    expect(await client.stats()).toEqual(STATS);
  });

  it("connectKv() answers with nothing when kvcached is not there, says so, and recovers", async () => {
    const uds = join(dir, "late.sock");
    const client = connectKv({ address: { uds }, clock, retryMs: 10 });
    ends.push(() => client.close());
    const query = { model: "m", root: "", prompt: new Uint8Array([1]) };
    expect(await client.match(query)).toEqual([]);
    expect(client.health()).toMatchObject({ ok: false, reason: expect.stringContaining("late.sock") });
    await expect(client.sources()).rejects.toThrow(/Cannot list sources at kvcached .*Start cgn-kvcached/);
    const server = await listenWire({ routes: kvRoutes(fakeService().service), uds });
    ends.push(() => server.close());
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(await client.match(query)).toHaveLength(1);
    expect(client.health().ok).toBe(true);
  });
});

describe("followAgent", () => {
  it("followAgent() mirrors an agent's list, survives its restart, and calls its workers down after a while", async () => {
    const uds = join(dir, "agent.sock");
    let listed: readonly WorkerInfo[] = [WORKER];
    const listeners = new Set<(w: readonly WorkerInfo[]) => void>();
    const directory = {
      list: () => listed,
      subscribe(l: (w: readonly WorkerInfo[]) => void) {
        listeners.add(l);
        return () => void listeners.delete(l);
      },
    };
    const first = await listenWire({ routes: agentRoutes(directory), uds });
    const remote = followAgent({ address: { uds }, clock, retryMs: 10, staleMs: 40 });
    ends.push(() => remote.close());
    await until(() => remote.list().length === 1);
    listed = [WORKER, { ...WORKER, id: workerId("a/1") }];
    for (const l of listeners) l(listed);
    await until(() => remote.list().length === 2);
    await first.close();
    await until(() => remote.list()[0]?.state === "down");
    expect(remote.health().ok).toBe(false);
    const second = await listenWire({ routes: agentRoutes(directory), uds });
    ends.push(() => second.close());
    await until(() => remote.list()[0]?.state === "ready");
  });
});
