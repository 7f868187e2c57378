import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import { nodeId, workerId } from "../core/ids.ts";
import { type Log, SILENT_LOG } from "../core/log.ts";
import type { MatchQuery, WorkerMatch } from "../core/prefix-knowledge.ts";
import type { WorkerInfo } from "../core/worker.ts";
import { connectKv } from "../wire/kv-client.ts";
import { kvRoutes } from "../wire/kv-server.ts";
import { listenWire } from "../wire/listen.ts";
import { createMirror, type Mirror } from "./mirror.ts";
import { createKvcached, type Kvcached } from "./service.ts";
import { REAL_CLOCK, until } from "./testing/fake-publisher.ts";

const dir = await mkdtemp(join(tmpdir(), "cgn-mirror-"));
afterAll(() => rm(dir, { recursive: true }));
const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

const LLAMA = workerId("llama");
const OTHER = workerId("other");

function worker(id: typeof LLAMA, over: Partial<WorkerInfo> = {}): WorkerInfo {
  return {
    id,
    node: nodeId("n"),
    kind: "llama_cpp",
    traits: {},
    url: "http://127.0.0.1:1",
    models: ["m"],
    role: "both",
    kv: { type: "history", entries: 8 },
    tokenizer: { bytes: true },
    state: "ready",
    reason: "",
    epoch: 1,
    ...over,
  };
}

const SLOTS = { count: 2, minShare: 0.1, storeTokens: 8_192, emptiesFree: false };
const query = (text: string): MatchQuery => ({ model: "m", root: "", prompt: new TextEncoder().encode(text) });
const by = (matches: readonly WorkerMatch[]) =>
  Object.fromEntries(matches.map((m) => [m.worker, [m.tokens, m.bytes, m.blocks]]));
const PAST = "You keep the archive of the observatory. ".repeat(8);

function service(seed = 1): Kvcached {
  const made = createKvcached({ clock: REAL_CLOCK, capBytes: 2 ** 24, seed, env: {} });
  ends.push(() => made.close());
  return made;
}

async function serve(kv: Kvcached, name: string): Promise<{ uds: string; close(): Promise<void> }> {
  const uds = join(dir, name);
  const server = await listenWire({ routes: kvRoutes(kv), uds });
  ends.push(() => server.close());
  return { uds, close: () => server.close() };
}

function mirrorOf(uds: string, over: Partial<Parameters<typeof createMirror>[0]> = {}): Mirror {
  const client = connectKv({ address: { uds }, clock: REAL_CLOCK });
  const made = createMirror({
    clients: [client],
    clock: REAL_CLOCK,
    log: SILENT_LOG,
    capBytes: 2 ** 24,
    ...over,
  });
  ends.push(() => {
    made.close();
    client.close();
  });
  return made;
}

/** What stands between a router and its kvcached: it may stop passing on what the router says, and be cut. */
async function between(name: string, first: string) {
  const uds = join(dir, name);
  const sockets = new Set<Socket>();
  const state = { to: first, deaf: false, swallowed: 0 };
  const server = createServer((near) => {
    const far = connect({ path: state.to });
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on("error", () => socket.destroy());
      socket.on("close", () => [near, far].map((each) => each.destroy()));
    }
    near.on("data", (bytes: Buffer) => {
      if (state.deaf) state.swallowed += bytes.length;
      else far.write(bytes);
    });
    far.on("data", (bytes: Buffer) => near.write(bytes));
  });
  await new Promise<void>((done) => server.listen(uds, done));
  const cut = () => {
    for (const socket of sockets) socket.destroy();
    sockets.clear();
  };
  ends.push(() => {
    cut();
    server.close();
  });
  return { uds, state, cut };
}

const live = (mirror: Mirror) => until(() => mirror.status().every((each) => each.state === "live"));
const outcome = (id: typeof LLAMA, text: string, tokens: number) => ({
  ...query(text),
  worker: id,
  epoch: 1,
  promptTokens: tokens,
  completionTokens: 1,
  cachedTokens: 0,
  predictedTokens: 0,
  answer: new TextEncoder().encode("ok"),
});

describe("createMirror", () => {
  it("createMirror() knows at once what kvcached knew of engines without events, by the same rules", async () => {
    const kv = service();
    kv.register(worker(LLAMA, { kv: { type: "history", entries: 8, slots: SLOTS } }));
    kv.register(worker(OTHER));
    for (const id of [LLAMA, OTHER]) {
      kv.sent(id, query(PAST));
      kv.observe(outcome(id, PAST, 80));
      kv.sent(id, query(`${PAST}under way`));
    }
    const { uds } = await serve(kv, "a.sock");
    const mirror = mirrorOf(uds);
    await live(mirror);
    for (const text of [PAST, `${PAST}under`, `${PAST}under way and on`, "Quite another prompt"]) {
      expect(by(mirror.match(query(text))), text).toEqual(by(kv.match(query(text))));
    }
    expect(Object.keys(by(mirror.match(query(`${PAST}more`))))).toEqual([OTHER]);
    // What is under way was copied too: its end is understood.
    kv.observe(outcome(LLAMA, `${PAST}under way`, 83));
    const next = query(`${PAST}under wayok and then`);
    await until(() => by(mirror.match(next))[LLAMA]?.[1] === by(kv.match(next))[LLAMA]?.[1]);
    expect(by(mirror.match(next))).toEqual(by(kv.match(next)));
  });

  it("createMirror() counts what is sent from here at once and once, and lets other mirrors know", async () => {
    const kv = service();
    kv.register(worker(LLAMA, { kv: { type: "history", entries: 8, slots: SLOTS } }));
    const { uds } = await serve(kv, "b.sock");
    const [one, two] = [mirrorOf(uds), mirrorOf(uds)];
    await live(one);
    await live(two);
    kv.register(worker(OTHER));
    await until(() => one.status()[0]?.workers === 2);
    for (const id of [LLAMA, OTHER]) one.sent(id, query(PAST));
    expect(by(one.match(query(`${PAST}more`)))[OTHER]).toBeDefined();
    await until(() => by(two.match(query(`${PAST}more`)))[OTHER] !== undefined);
    one.observe(outcome(LLAMA, PAST, 80));
    expect(by(one.match(query(`${PAST}more`)))[LLAMA]).toEqual([80, 328, 0]);
    const next = query(`${PAST}ok and then`);
    await until(() => kv.match(next).length === 2 && two.match(next).length === 2);
    expect(by(one.match(next))).toEqual(by(kv.match(next)));
    expect(by(two.match(next))).toEqual(by(kv.match(next)));
  });

  it("createMirror() goes on without kvcached, says so, tells what was sent meanwhile, and takes up the same watch", async () => {
    const kv = service();
    kv.register(worker(OTHER));
    const first = await serve(kv, "c.sock");
    const said: string[] = [];
    const log: Log = { ...SILENT_LOG, warn: (text) => void said.push(text), info: (text) => void said.push(text) };
    const mirror = mirrorOf(first.uds, { log });
    await live(mirror);
    mirror.sent(OTHER, query(PAST));
    mirror.observe(outcome(OTHER, PAST, 80));
    await until(() => by(kv.match(query(`${PAST}more`)))[OTHER]?.[0] === 80);
    await first.close();
    await until(() => mirror.status()[0]?.state === "lost");
    expect(said.at(-1)).toMatch(/kvcached is gone: routing goes on/);
    expect(by(mirror.match(query(`${PAST}more`)))).toEqual(by(kv.match(query(`${PAST}more`))));
    const meanwhile = "Something sent while nobody listened. ".repeat(9);
    mirror.sent(OTHER, query(meanwhile));
    mirror.observe(outcome(OTHER, meanwhile, 90));
    expect(mirror.status()[0]).toMatchObject({ notesWaiting: 2, workers: 1 });
    await serve(kv, "c.sock");
    await live(mirror);
    expect(mirror.status()[0]).toMatchObject({ snapshots: 1, resumed: 1, reason: "" });
    await until(() => by(kv.match(query(`${meanwhile}more`)))[OTHER]?.[0] === 90);
    expect(by(mirror.match(query(`${meanwhile}more`)))).toEqual(by(kv.match(query(`${meanwhile}more`))));
  });

  it("createMirror() keeps what it heard itself when a new kvcached comes up empty", async () => {
    const kv = service(7);
    const info = worker(LLAMA, { kv: { type: "history", entries: 8, slots: SLOTS } });
    kv.register(info);
    kv.register(worker(OTHER));
    const first = await serve(kv, "d.sock");
    const mirror = mirrorOf(first.uds);
    await live(mirror);
    for (const id of [LLAMA, OTHER]) {
      mirror.sent(id, query(PAST));
      mirror.observe(outcome(id, PAST, 80));
    }
    const before = by(mirror.match(query(`${PAST}more`)));
    expect(Object.keys(before)).toHaveLength(2);
    await until(() => mirror.status()[0]?.notesWaiting === 0);
    await first.close();
    // As after a restart with a snapshot: the same seed, another run, nothing known of engines without events.
    const second = service(7);
    second.register(info);
    second.register(worker(OTHER));
    await serve(second, "d.sock");
    await until(() => mirror.status()[0]?.snapshots === 2);
    expect(by(mirror.match(query(`${PAST}more`)))).toEqual(before);
    expect(second.match(query(`${PAST}more`))).toEqual([]);
  });

  it("createMirror() does not count an engine that was restarted, though kvcached is gone", async () => {
    const kv = service();
    kv.register(worker(OTHER));
    kv.sent(OTHER, query(PAST));
    const { uds, close } = await serve(kv, "e.sock");
    let listed: readonly WorkerInfo[] = [worker(OTHER)];
    const listeners = new Set<(workers: readonly WorkerInfo[]) => void>();
    const directory = {
      list: () => listed,
      subscribe: (listener: (workers: readonly WorkerInfo[]) => void) => {
        listeners.add(listener);
        return () => listeners.delete(listener);
      },
    };
    const mirror = mirrorOf(uds, { directory });
    await live(mirror);
    expect(mirror.match(query(`${PAST}more`))).toHaveLength(1);
    // As a router says that watched it from an earlier time on than whoever registered it.
    listed = [worker(OTHER, { epoch: 0 })];
    for (const listener of listeners) listener(listed);
    expect(mirror.match(query(`${PAST}more`))).toHaveLength(1);
    await close();
    listed = [worker(OTHER, { epoch: 2 })];
    for (const listener of listeners) listener(listed);
    expect(mirror.match(query(`${PAST}more`))).toEqual([]);
  });

  it("createMirror() of two kvcacheds tells each worker once", async () => {
    const [a, b] = [service(1), service(2)];
    for (const kv of [a, b]) {
      kv.register(worker(OTHER));
      kv.sent(OTHER, query(PAST));
    }
    b.register(worker(LLAMA));
    b.sent(LLAMA, query(PAST));
    const one = await serve(a, "f.sock");
    const two = await serve(b, "g.sock");
    const clients = [one, two].map(({ uds }) => connectKv({ address: { uds }, clock: REAL_CLOCK }));
    const mirror = createMirror({ clients, clock: REAL_CLOCK, log: SILENT_LOG, capBytes: 2 ** 24 });
    ends.push(() => {
      mirror.close();
      for (const client of clients) client.close();
    });
    await live(mirror);
    const matched = () => mirror.match(query(`${PAST}more`)).map((m) => m.worker);
    expect(matched().sort()).toEqual([LLAMA, OTHER]);
    await two.close();
    await until(() => mirror.status()[1]?.state === "lost");
    expect(matched().sort()).toEqual([LLAMA, OTHER]);
  });

  it("createMirror() tells a restarted kvcached what was on its way to the one that died", async () => {
    const first = service(1);
    first.register(worker(OTHER));
    const way = await between("way.sock", (await serve(first, "way-1.sock")).uds);
    const mirror = mirrorOf(way.uds);
    await live(mirror);
    way.state.deaf = true;
    mirror.sent(OTHER, query(PAST));
    await until(() => way.state.swallowed > PAST.length);
    // It died with the call in its socket; the one that comes after it was told nothing yet.
    const second = service(2);
    second.register(worker(OTHER));
    way.state.to = (await serve(second, "way-2.sock")).uds;
    way.cut();
    way.state.deaf = false;
    await until(() => second.match(query(`${PAST}more`)).length > 0);
    expect(first.match(query(`${PAST}more`))).toEqual([]);
    await live(mirror);
    // Told once: what it came to is believed in the copy as in kvcached.
    mirror.observe(outcome(OTHER, PAST, 80));
    const next = query(`${PAST}ok and on`);
    await until(() => second.match(next)[0]?.tokens === 80 && mirror.match(next)[0]?.tokens === 80);
    await until(() => mirror.status()[0]?.notesWaiting === 0);
    expect(mirror.status()[0]?.notesDropped).toBe(0);
  });
});
