import { readFileSync } from "node:fs";
import { decode } from "@msgpack/msgpack";
import { expect } from "vitest";
import { Dealer, Subscriber } from "zeromq";
import { readSglangArgv } from "../wire/sglang-argv.ts";
import type { SimDeps } from "../wire/sim-engine.ts";
import type { SimOptions } from "../wire/sim-options.ts";
import { type SimServer, startSim } from "../wire/sim-server.ts";
import { readVllmArgv } from "../wire/vllm-argv.ts";

export { freePort } from "../../process/testing/harness.ts";

/** What the simulator's own tests share: starting one in this process, asking it, listening to its events. */

export const read = (name: string) => readFileSync(new URL(`../testdata/${name}`, import.meta.url), "utf8");

let serial = 0;
/** The real clock; a fault that would end the process does nothing. */
export const deps: SimDeps = {
  clock: {
    now: () => performance.now(),
    wall: () => Date.now(),
    after(ms, fn) {
      const timer = setTimeout(fn, ms);
      return () => clearTimeout(timer);
    },
  },
  newId: () => (serial++).toString(16).padStart(32, "0"),
  crash: () => {},
  exit: () => {},
};

const opened: { close(): unknown }[] = [];

/** End whatever a test opened; for `afterEach`. */
export async function closeAll(): Promise<void> {
  for (const one of opened.splice(0)) await one.close();
}

/** Have something closed after the test. */
export function track<T extends { close(): unknown }>(one: T): T {
  opened.push(one);
  return one;
}

export const eventsFlag = (port: number, replay: number) => [
  "--kv-events-config",
  JSON.stringify({
    enable_kv_cache_events: true,
    publisher: "zmq",
    endpoint: `tcp://*:${port}`,
    replay_endpoint: `tcp://*:${replay}`,
    topic: "kv@test",
  }),
];

export async function vllm(extra: readonly string[] = [], profile = "instant"): Promise<SimServer> {
  const argv = ["serve", "m", "--port", "0", "--served-model-name", "sim", "alias", "--block-size", "16"];
  return startTracked(
    readVllmArgv([...argv, "--enable-prompt-tokens-details", "--sim-profile", profile, ...extra], {
      PYTHONHASHSEED: "0",
      VLLM_SERVER_DEV_MODE: "1",
    }),
  );
}

export async function startTracked(options: SimOptions): Promise<SimServer> {
  return track(await startSim(options, deps));
}

export async function sglang(extra: readonly string[] = []): Promise<SimServer> {
  const argv = ["-m", "sglang.launch_server", "--model-path", "m", "--served-model-name", "smollm2", "--port", "0"];
  const flags = ["--page-size", "16", "--enable-metrics", "--enable-cache-report", "--sim-profile", "instant"];
  return startTracked(readSglangArgv([...argv, ...flags, ...extra], {}));
}

export async function post(server: SimServer, path: string, body: unknown, init: RequestInit = {}) {
  const headers = { "content-type": "application/json" };
  const res = await fetch(`${server.url}${path}`, { method: "POST", headers, body: JSON.stringify(body), ...init });
  const text = await res.text();
  // biome-ignore lint/suspicious/noExplicitAny: bodies are looked into field by field
  return { status: res.status, text, json: parse(text) as any };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export const chat = (content: string, more: object = {}) => ({
  model: "sim",
  messages: [{ role: "user", content }],
  max_tokens: 40,
  ...more,
});

// biome-ignore lint/suspicious/noExplicitAny: as above
export const chunks = (sse: string): any[] =>
  [...sse.matchAll(/^data: (\{.*)$/gm)].map(([, json]) => JSON.parse(json!));

/** Keys of an object and of all objects in it, as paths; list items by their first. */
export function shapeOf(value: unknown, path = ""): string[] {
  if (Array.isArray(value)) return value.length === 0 ? [`${path}[]`] : shapeOf(value[0], `${path}[]`);
  if (typeof value !== "object" || value === null) return [path];
  return Object.entries(value).flatMap(([key, v]) => shapeOf(v, `${path}.${key}`));
}

/** Poll, at most two seconds. */
export async function until(condition: () => boolean): Promise<void> {
  for (let i = 0; i < 200 && !condition(); i++) await new Promise((resolve) => setTimeout(resolve, 10));
  expect(condition()).toBe(true);
}

/** A subscription takes a moment to reach the publisher: send chats until the first frame would be there. */
export async function subscribed(server: SimServer, sub: Subscriber): Promise<void> {
  for (let i = 0; i < 40 && !sub.readable; i++) {
    await post(server, "/v1/chat/completions", chat(`warm ${i} ${"z".repeat(20)}`, { max_tokens: 1 }));
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** All replay replies from `start` on, the end mark included; frames in base64 (empty ones as ""). */
export async function replayFrom(port: number, start: bigint): Promise<string[][]> {
  const dealer = track(new Dealer({ receiveTimeout: 2000, linger: 0 }));
  dealer.connect(`tcp://127.0.0.1:${port}`);
  const ask = Buffer.alloc(8);
  ask.writeBigUInt64BE(start);
  await dealer.send(["", ask]);
  const replies: string[][] = [];
  for (let i = 0; i < 1000; i++) {
    const reply = await dealer.receive();
    replies.push(reply.map((part) => part.toString("base64")));
    if (reply[2]?.equals(Buffer.alloc(8, 0xff))) return replies;
  }
  return replies;
}

/** Types of the events in one payload. */
export function eventTypes(payload: Uint8Array): string[] {
  return (decode(payload) as [number, { type: string }[]])[1].map((event) => event.type);
}

/** A subscription to the test topic, closed after the test. */
export function subscribe(port: number): Subscriber {
  const sub = track(new Subscriber({ receiveTimeout: 2000, linger: 0 }));
  sub.connect(`tcp://127.0.0.1:${port}`);
  sub.subscribe("kv@test");
  return sub;
}
