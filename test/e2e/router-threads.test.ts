import { connect, type Socket } from "node:net";
import type { Worker } from "node:worker_threads";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { openAccess } from "../../src/access/access.ts";
import { simConfig } from "../../src/cli/demo/config.ts";
import { type Log, SILENT_LOG } from "../../src/core/log.ts";
import { type FakeEngine, startFakeEngine } from "../../src/router/testing/fake-engine.ts";
import { realClock, startTestRouter, type TestRouter, testWorker } from "../../src/router/testing/test-router.ts";
import { ALL_CASES } from "../faults/all-cases.ts";
import { nothingLeft, runCase } from "../faults/rig.ts";
import { until } from "../helpers/cgn-process.ts";
import { chat, startUp, type Up } from "../helpers/up.ts";

const MINUTE = 60_000;
const CHAT = { model: "m", messages: [{ role: "user", content: "What is the capital of France?" }] };

/** One request on a connection of its own: raw, so that both forms of the router get the same bytes. */
function raw(port: number, method: string, path: string, body = "", headers = ""): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1");
    let said = "";
    socket.setEncoding("utf8");
    socket.on("data", (text) => (said += text));
    socket.on("close", () => resolve(said));
    socket.on("error", reject);
    const length = body === "" ? "" : `content-length: ${Buffer.byteLength(body)}\r\n`;
    const head = `${method} ${path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-request-id: r1\r\n${length}${headers}\r\n`;
    socket.write(head + body);
  });
}

/** Without what differs from one moment to the next. */
const same = (answer: string): string => answer.replaceAll(/^date: .*$/gim, "").replaceAll(/"created":\d+/g, "");

const post = (json: object, path = "/v1/chat/completions", headers = ""): readonly [string, string, string, string] => [
  "POST",
  path,
  JSON.stringify(json),
  `content-type: application/json\r\n${headers}`,
];

/** Requests of all kinds, refused ones too. */
const ALIKE: readonly (readonly [string, string, string?, string?])[] = [
  post(CHAT),
  post({ ...CHAT, stream: true }),
  post({ ...CHAT, stream: true, stream_options: { include_usage: true } }),
  post({ model: "m", prompt: "Once", max_tokens: 3 }, "/v1/completions"),
  post({ model: "m", input: "text" }, "/v1/embeddings"),
  // The engine is said to lack this API: the request is converted, and brought to the main thread for it.
  post({ model: "m", max_tokens: 9, messages: CHAT.messages }, "/v1/messages", "anthropic-version: 2023-06-01\r\n"),
  post({ ...CHAT, model: "nobody" }),
  post({ messages: CHAT.messages }),
  post(CHAT, "/v1/chat/completions", "x-cgn-priority: much\r\n"),
  post(CHAT, "/v1/chat/completions", "x-cgn-deadline-ms: soon\r\n"),
  post(CHAT, "/v1/chat/completions", "origin: https://page.example\r\n"),
  ["POST", "/v1/chat/completions", "{", "content-type: application/json\r\n"],
  ["POST", "/v1/chat/completions", JSON.stringify({ ...CHAT, x: "y".repeat(70_000) })],
  ["OPTIONS", "/v1/chat/completions", "", "origin: https://page.example\r\naccess-control-request-method: POST\r\n"],
  ["GET", "/v1/models"],
  ["GET", "/v1/chat/completions"],
  ["GET", "/nope"],
  ["GET", "/v1/%zz"],
];

describe("a router with two threads", () => {
  const ends: (() => unknown)[] = [];
  afterEach(async () => {
    for (const end of ends.splice(0).reverse()) await end();
  });
  type More = Parameters<typeof startTestRouter>[4];

  async function start(threads: number, engine: FakeEngine, more: More = {}): Promise<TestRouter> {
    const worker = testWorker("a", engine.url, {
      tokenizer: { bytes: true },
      traits: { lacks: ["/v1/messages"], foldNonStreaming: true, usageOnlyWhenAsked: true },
    });
    const made = await startTestRouter(
      [worker],
      { cors: { origins: ["https://page.example"], headers: [], maxAgeMs: 1_000 } },
      undefined,
      undefined,
      { ...(threads === 0 ? {} : { threads: { count: threads, env: {} } }), ...more },
    );
    ends.push(() => made.router.close());
    return made;
  }

  async function startEngine(): Promise<FakeEngine> {
    const engine = await startFakeEngine();
    ends.push(() => engine.close());
    return engine;
  }

  it("answers each request as one without threads does, and has its port to itself", { timeout: MINUTE }, async () => {
    const engine = await startEngine();
    const answers: string[][] = [];
    let listenHttp = { host: "", port: 0 };
    for (const threads of [0, 2]) {
      const { router, admin } = await start(threads, engine);
      listenHttp = router.address;
      const { port } = listenHttp;
      const all: string[] = [];
      for (const [method, path, body, headers] of ALIKE)
        all.push(`${method} ${path}\n${same(await raw(port, method, path, body, headers))}`);
      answers.push(all);
      // What was counted and what the engine saw is the same too.
      const metrics = await (await fetch(`${admin}/metrics`)).text();
      all.push(...metrics.split("\n").filter((line) => /^cgn_router_\w+_total[ {]/.test(line)));
      all.push(JSON.stringify(engine.seen.splice(0).map(({ method, url, body }) => ({ method, url, body }))));
    }
    expect(answers[1]).toEqual(answers[0]);
    expect(answers[0]?.[0]).toContain("HTTP/1.1 200");
    const threads = { count: 2, env: {} };
    const second = startTestRouter([], { listenHttp }, undefined, undefined, { threads });
    await expect(second).rejects.toMatchObject({ code: "PORT_IN_USE" });
  });

  it("counts all threads' requests in one bucket, and takes no body of who shows no key", {
    timeout: MINUTE,
  }, async () => {
    const engine = await startEngine();
    const rateLimit = { enabled: true, rps: 0.0001, burst: 3 };
    const auth = { enabled: true, keys: [{ hash: HASH_OF_SECRET, name: "alice", scopes: ["inference"], limits: {} }] };
    const access = await openAccess({ auth, rateLimit, cluster: "test" } as never, {
      clock: realClock,
      log: SILENT_LOG,
    });
    ends.push(() => access.close());
    const { router } = await start(2, engine, { access });
    const ask = (key: string): Promise<string> => {
      const [method, path, body, headers] = post(CHAT, undefined, `authorization: Bearer ${key}\r\n`);
      return raw(router.address.port, method, path, body, headers);
    };
    const statuses = await Promise.all(Array.from({ length: 8 }, async () => (await ask("secret")).slice(9, 12)));
    expect(statuses.toSorted()).toEqual(["200", "200", "200", "429", "429", "429", "429", "429"]);
    expect((await ask("guessed")).slice(9, 12)).toBe("401");
    expect(engine.seen.length).toBe(3);
    // The router's own key is not the engine's business.
    expect(engine.seen[0]?.headers.authorization).toBeUndefined();
  });

  it("gives back what a thread that dies had booked, and starts it anew", { timeout: 2 * MINUTE }, async () => {
    const engine = await startEngine();
    engine.behaviour = "endless";
    const threads: Worker[] = [];
    const said: string[] = [];
    const log: Log = { ...SILENT_LOG, error: (message) => void said.push(message) };
    const rig = await start(2, engine, { log, threads: { count: 2, env: {}, onStart: (t) => void threads.push(t) } });
    const { port } = rig.router.address;
    const [method, path, body, headers] = post({ ...CHAT, stream: true });
    let ended = 0;
    const sockets: Socket[] = [];
    for (let i = 0; i < 24; i++) {
      const socket = connect(port, "127.0.0.1");
      sockets.push(socket);
      socket.on("error", () => {});
      socket.on("close", () => ended++);
      socket.resume();
      socket.write(`${method} ${path} HTTP/1.1\r\nhost: x\r\n${headers}content-length: ${body.length}\r\n\r\n${body}`);
    }
    const load = rig.router.core.loads.of(rig.directory.list()[0]!.id);
    await until("all streams", MINUTE, () => load.streams === 24);
    await threads[0]!.terminate();
    await until("connections of the thread that died", MINUTE, () => ended > 0);
    // The system shared out 24 connections: hardly ever all to one thread.
    await until("its bookings", MINUTE, () => load.inFlight === 24 - ended);
    await until("another thread", MINUTE, () => threads.length === 3);
    expect(said.join()).toContain("A thread of the router ended");
    for (const socket of sockets) socket.destroy();
    await nothingLeft(rig);
    engine.behaviour = "answer";
    const after = await Promise.all(Array.from({ length: 6 }, () => raw(port, ...post(CHAT))));
    expect(after.every((answer) => answer.startsWith("HTTP/1.1 200"))).toBe(true);
    expect(await (await fetch(`${rig.admin}/metrics`)).text()).toContain("cgn_router_thread_deaths_total 1");
  });

  // `npm run test:faults -- --threads 2` has them all.
  const SOME = new Set(["connection refused by all", "reset amid a chat's text", "leaves the queue"]);
  it.each(
    Object.values(ALL_CASES)
      .flat()
      .filter(({ name }) => SOME.has(name)),
  )("meets $name: $sees", { timeout: 90_000 }, (test) => runCase(test, 2));
});

/** SHA-256 of "secret". */
const HASH_OF_SECRET = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

describe("cgn up with worker_threads = 2", () => {
  let up: Up;
  beforeAll(async () => {
    up = await startUp((ports, dir) => simConfig(ports, dir).replace("[router]\n", "[router]\nworker_threads = 2\n"));
  }, 150_000);
  afterAll(async () => void (await up?.stop()));

  const body = { model: "sim", max_tokens: 8, stream: true, stream_options: { include_usage: true } };
  const system = "The archive keeps glass plates, night logs and letters, sorted by number and by year. ".repeat(8);

  it("predicts exactly what other threads' requests left in the caches", { timeout: MINUTE }, async () => {
    const first = [
      { role: "system", content: system },
      { role: "user", content: "Where are the comets?" },
    ];
    const port = Number(new URL(up.url).port);
    /** On a connection of its own: some are the other thread's. */
    const figures = async (
      messages: readonly object[],
    ): Promise<{ predicted: number; cached: number; text: string }> => {
      const answer = await raw(port, ...post({ model: "sim", max_tokens: 8, messages }));
      const json = JSON.parse(/\{.*\}/s.exec(answer)![0]);
      return {
        predicted: Number(/^x-cgn-predicted-cached-tokens: (\d+)/im.exec(answer)?.[1]),
        cached: json.usage.prompt_tokens_details?.cached_tokens ?? 0,
        text: json.choices[0].message.content,
      };
    };
    const { text } = await figures(first);
    for (let n = 0; n < 8; n++) {
      const turn = [...first, { role: "assistant", content: text }, { role: "user", content: `And letter ${n}?` }];
      // Events of the request before may be on their way still.
      await until(`an exact prediction of turn ${n}`, MINUTE, async () => {
        const { predicted, cached } = await figures(turn);
        return cached > 0 && predicted === cached;
      });
    }
    await nothingLeft({ admin: up.admin });
  });

  it("lets streams end when it stops", { timeout: 2 * MINUTE }, async () => {
    const asked = { ...body, max_tokens: 64, messages: [{ role: "user", content: "Tell me of the plates." }] };
    const streams = Array.from({ length: 6 }, () => chat(up.url, asked));
    await until("streams under way", MINUTE, async () => {
      const status = (await (await fetch(`${up.admin}/v1/cgn/status`)).json()) as {
        workers: { load: { inFlight: number } }[];
      };
      return status.workers.reduce((sum, { load }) => sum + load.inFlight, 0) === 6;
    });
    const code = up.stop();
    for (const reply of await Promise.all(streams)) expect(reply).toMatchObject({ status: 200, finished: true });
    expect(await code).toBe(0);
  });
});
