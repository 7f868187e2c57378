import assert from "node:assert/strict";
import type { Socket } from "node:net";
import type { WorkerInfo } from "../../src/core/worker.ts";
import type { RouterOptions } from "../../src/router/create-router.ts";
import { startTestRouter, type TestRouter, testWorker } from "../../src/router/testing/test-router.ts";
import { RawClient } from "../faults/raw-client.ts";
import {
  finished,
  good,
  type RawEngine,
  type RawRequest,
  reply,
  type Script,
  startRawEngine,
  WHOLE,
} from "../faults/raw-engine.ts";
import { nothingLeft, until } from "../faults/rig.ts";

/** Two prefill engines and two decode engines of one model. */
export const NAMES = ["p1", "p2", "d1", "d2"] as const;
export type Name = (typeof NAMES)[number];

type Json = Readonly<Record<string, unknown>>;

/** A router before prefill and decode engines on bare sockets. */
export interface PairRig extends TestRouter {
  readonly engines: Readonly<Record<Name, RawEngine>>;
  readonly kv: KvBook;
  ask(bytes: string | Buffer): Promise<RawClient>;
  set(name: Name, over: Partial<WorkerInfo>): void;
}

/** KV that prefill engines keep for somebody: pulled once, and only once. */
export class KvBook {
  readonly #held = new Set<string>();
  /** Hand-overs that were used a second time, or that nobody made. */
  readonly misused: string[] = [];
  #made = 0;

  hold(engine: string): string {
    const id = `${engine}-${++this.#made}`;
    this.#held.add(id);
    return id;
  }

  pull(id: string): void {
    if (!this.#held.delete(id)) this.misused.push(id);
  }

  get held(): number {
    return this.#held.size;
  }
}

export interface PairCase {
  readonly name: string;
  /** What the client sees, in words. */
  readonly sees: string;
  readonly protocol: "pull" | "bootstrap";
  /** Which engines there are. Default: one prefill, two decode. */
  readonly there?: readonly Name[];
  readonly workers?: Readonly<Partial<Record<Name, Partial<WorkerInfo>>>>;
  readonly settings?: Partial<RouterOptions["settings"]>;
  readonly scripts?: Readonly<Partial<Record<Name, (rig: () => PairRig, usual: Script) => Script>>>;
  /** KV that stays with a prefill engine because nobody can make it go: the decode engine died with it. */
  readonly leaves?: number;
  run(rig: PairRig): Promise<void>;
}

/** Far beyond what a case takes, however busy the machine: only cases of engines that hang have limits of their own. */
const LIMITS = { firstTokenMs: 60_000, answerMs: 60_000, stallMs: 60_000, continueStreams: false };

/** For cases of prefill engines that hang: the others answer in far less. */
export const IMPATIENT = { disagg: { splits: true, colocateBelowTokens: 4, prefillTimeoutMs: 4_000 } };

/**
 * Run one case, and see that nothing is left of it: no booking, no connection, no KV, and nothing handed over was used twice.
 * @throws AssertionError saying what was seen instead
 */
export async function runPairCase(test: PairCase): Promise<void> {
  const there = test.there ?? (["p1", "d1", "d2"] as const);
  const kv = new KvBook();
  let rig: PairRig | undefined;
  const started = await Promise.all(
    NAMES.map(async (name) => {
      const usual = (test.protocol === "pull" ? PULL : BOOTSTRAP)(name, kv);
      const script = test.scripts?.[name]?.(() => rig!, usual) ?? usual;
      return [name, await startRawEngine(script)] as const;
    }),
  );
  const engines = Object.fromEntries(started) as Record<Name, RawEngine>;
  const worker = (name: Name, over: Partial<WorkerInfo> = {}): WorkerInfo =>
    pairWorker(name, engines[name].url, test.protocol, { ...test.workers?.[name], ...over });
  const router = await startTestRouter(
    there.map((name) => worker(name)),
    {
      policy: "round_robin",
      answers: LIMITS,
      disagg: { splits: true, colocateBelowTokens: 4, prefillTimeoutMs: 60_000 },
      ...test.settings,
    },
  );
  const clients: RawClient[] = [];
  rig = {
    ...router,
    engines,
    kv,
    async ask(bytes) {
      const one = await RawClient.open(router.router.address.port);
      clients.push(one);
      one.send(bytes);
      return one;
    },
    set: (name, over) => router.directory.set(worker(name, over)),
  };
  try {
    await test.run(rig);
    for (const one of clients) one.socket.destroy();
    await nothingLeft(rig);
    assert.deepEqual(kv.misused, [], "what a prefill handed over was used twice");
    await until(
      () => `${kv.held} hand-overs still held, ${test.leaves ?? 0} expected`,
      () => kv.held === (test.leaves ?? 0),
    );
  } finally {
    for (const one of clients) one.socket.destroy();
    await rig.router.close();
  }
  try {
    await until("no connection to an engine", () => started.every(([, { sockets }]) => sockets.size === 0));
  } finally {
    await Promise.all(started.map(([, engine]) => engine.kill()));
  }
}

function pairWorker(name: Name, url: string, protocol: PairCase["protocol"], over: Partial<WorkerInfo>): WorkerInfo {
  const role = name.startsWith("p") ? "prefill" : "decode";
  const pull = protocol === "pull";
  return testWorker(name, url, {
    role,
    kind: pull ? "vllm" : "sglang",
    traits: pull ? { servesWhole: true, stripKvTransferParams: true } : {},
    handOver: pull ? { protocol } : { protocol, ...(role === "prefill" ? { host: "127.0.0.1", port: 9_000 } : {}) },
    ...over,
  });
}

export const bodyOf = ({ body }: RawRequest): Json => JSON.parse(body) as Json;
export const paramsOf = (request: RawRequest): Json | undefined =>
  bodyOf(request)["kv_transfer_params"] as Json | undefined;

/** The last answer of a prefill, with what it hands over. */
export function handedOver(id: string, over: Json = {}): string {
  const params = {
    do_remote_prefill: true,
    do_remote_decode: false,
    remote_block_ids: [[1, 2]],
    remote_engine_id: "e",
    remote_request_id: id,
    remote_host: "127.0.0.1",
    remote_port: 1,
    ...over,
  };
  return JSON.stringify({ ...JSON.parse(WHOLE), kv_transfer_params: params });
}

/** vLLM over NIXL: a prefill holds, a decode pulls. */
const PULL =
  (name: Name, kv: KvBook): Script =>
  (request, socket) => {
    const params = paramsOf(request);
    if (params?.["do_remote_decode"] === true) {
      socket.write(reply(200, handedOver(kv.hold(name))));
      return finished(socket);
    }
    if (params?.["do_remote_prefill"] === true) kv.pull(String(params["remote_request_id"]));
    good(request, socket);
  };

/** Rooms where the legs of this process's engines meet. */
const rooms = new Map<string, { readonly side: string; readonly go: () => void }>();

/** SGLang: both legs wait for each other in a room; without a room they refuse. */
const BOOTSTRAP =
  (name: Name): Script =>
  (request, socket) => {
    const room = bodyOf(request)["bootstrap_room"];
    if (room === undefined) {
      socket.write(reply(400, '{"message":"Disaggregated request received without bootstrap room id"}'));
      return finished(socket);
    }
    meet(JSON.stringify(room), name, socket, () => good(request, socket));
  };

function meet(room: string, name: string, socket: Socket, go: () => void): void {
  const waiting = rooms.get(room);
  if (waiting === undefined || waiting.side[0] === name[0]) {
    rooms.set(room, { side: name, go });
    socket.once("close", () => rooms.delete(room));
    return;
  }
  rooms.delete(room);
  waiting.go();
  go();
}
