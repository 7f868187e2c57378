import assert from "node:assert/strict";
import { isError, isWhole, nodeOf, wholeFrom } from "./expect.ts";
import { CHAT, post, type RawClient, STREAMED } from "./raw-client.ts";
import { chunk, event, finished, LAST_CHUNK, type Script, STREAM, STREAM_HEAD } from "./raw-engine.ts";
import { type FaultCase, type Rig, until } from "./rig.ts";

const hang: Script = () => {};
const endless: Script = (_request, socket) => {
  socket.write(STREAM_HEAD);
  const timer = setInterval(() => socket.write(chunk(event("x"))), 10);
  socket.once("close", () => clearInterval(timer));
};

const LEAVINGS: Readonly<Record<string, (client: RawClient) => void>> = {
  "closes its connection": ({ socket }) => void socket.destroy(),
  "resets its connection": ({ socket }) => void socket.resetAndDestroy(),
  "half-closes its connection": ({ socket }) => void socket.end(),
};

/** The client goes in a phase, in each way: the engine's work ends at once. */
function leaves(
  phase: string,
  script: Script,
  body: string,
  reached: (rig: Rig, client: RawClient) => Promise<void>,
): FaultCase[] {
  return Object.entries(LEAVINGS).map(([way, leave]) => ({
    name: `${way} ${phase}`,
    sees: "nothing more; the engine is cut, no other one is asked",
    a: script,
    async run(rig) {
      const client = await rig.ask(post(body));
      await reached(rig, client);
      leave(client);
      await until("the engine is cut", () => rig.a.cut === 1);
      assert.equal(rig.b.requests.length, 0);
    },
  }));
}

const asked = async (rig: Rig): Promise<void> => until("the engine has it", () => rig.a.requests.length === 1);

export const LEAVING_CASES: readonly FaultCase[] = [
  ...leaves("before the first byte", hang, CHAT, asked),
  ...leaves("in the midst of a stream", endless, STREAMED, (_rig, client) => client.saw("data:")),
  {
    name: "leaves while it sends its body",
    sees: "nothing; no engine is asked",
    async run(rig) {
      const client = await rig.ask(post(CHAT).slice(0, -10));
      await until("the router has it", () => rig.router.core.decisions.latest(1).length === 0);
      client.socket.destroy();
      await wholeFrom(rig, "a");
      assert.equal(rig.a.requests.length, 1);
    },
  },
  {
    name: "leaves the queue",
    sees: "nothing; no engine is asked, the next in the queue is",
    rig: { settings: { admission: { maxConcurrentPerReplica: 1, maxQueue: 4 } } },
    a: hang,
    b: hang,
    async run(rig) {
      const running = [await rig.ask(post(CHAT)), await rig.ask(post(CHAT))];
      await until("both run", () => rig.a.requests.length + rig.b.requests.length === 2);
      const queued = await rig.ask(post(CHAT));
      await until("one waits", () => rig.router.core.admissions.queued("m") === 1);
      queued.socket.destroy();
      await until("none waits", () => rig.router.core.admissions.queued("m") === 0);
      for (const client of running) client.socket.destroy();
      await until("none runs", () => rig.router.core.admissions.running("m") === 0);
      assert.equal(rig.a.requests.length + rig.b.requests.length, 2);
    },
  },
  {
    name: "leaves the room where its model is waited for",
    sees: "nothing; nobody is told any more that the model is wanted",
    rig: { loader: true, workers: { state: "unloaded", onDemand: true } },
    async run(rig) {
      const client = await rig.ask(post(STREAMED));
      await until("it waits", () => rig.router.core.waits.waiting("m") === 1);
      client.socket.destroy();
      await until("none waits", () => rig.router.core.waits.waiting("m") === 0);
      await until("nobody is told", () => rig.demand.at(-1)?.length === 0);
      assert.equal(rig.a.requests.length + rig.b.requests.length, 0);
    },
  },
  {
    name: "leaves with the answer's last byte",
    sees: "its answer",
    a: (_request, socket) => {
      socket.write(STREAM_HEAD + chunk(STREAM) + LAST_CHUNK);
      finished(socket);
    },
    async run(rig) {
      const client = await rig.ask(post(STREAMED));
      await client.saw("[DONE]");
      client.socket.destroy();
      await until("it counts as answered", () => rig.router.core.decisions.latest(1)[0]?.outcome?.result === "ok");
    },
  },
];

const FLOOD_BYTES = 32 * 1024 * 1024;
const piece = chunk(event("x".repeat(16_000)));

/** 32 MiB of events, as fast as they are taken. */
const flood: Script = (_request, socket) => {
  let sent = 0;
  socket.write(STREAM_HEAD);
  const more = (): void => {
    while (sent < FLOOD_BYTES) {
      sent += piece.length;
      if (!socket.write(piece)) return void socket.once("drain", more);
    }
    socket.write(chunk(`${event("", "stop")}data: [DONE]\n\n`) + LAST_CHUNK);
    finished(socket);
  };
  more();
};

/** Requests that are slow, odd or wrong themselves. */
export const REQUEST_CASES: readonly FaultCase[] = [
  {
    name: "client that takes nothing for a while",
    sees: "every byte in the end; the engine waits meanwhile",
    a: flood,
    async run(rig) {
      const client = await rig.client();
      client.socket.pause();
      client.send(post(STREAMED));
      let taken = -1;
      // Nothing moves any more once all buffers on the way are full.
      for (let same = 0; same < 10; ) {
        await new Promise((resolve) => setTimeout(resolve, 20));
        const now = [...rig.a.sockets].reduce(
          (sum, { bytesWritten, writableLength }) => sum + bytesWritten - writableLength,
          0,
        );
        same = now === taken && now > 0 ? same + 1 : 0;
        taken = now;
      }
      assert(taken < 24 * 1024 * 1024, `${taken} bytes were taken from the engine`);
      client.keepEnd();
      client.socket.resume();
      await client.saw(`[DONE]\n\n\r\n${LAST_CHUNK}`);
      // The chunks are cut anew.
      assert(client.total > FLOOD_BYTES * 0.99);
    },
  },
  {
    name: "header of 100 KiB",
    sees: "431",
    async run(rig) {
      const answer = await (await rig.ask(post(CHAT, `x-a: ${"a".repeat(100 * 1024)}\r\n`))).answer();
      isError(answer, 431, "request_invalid");
    },
  },
  {
    name: "two different lengths",
    sees: "400; no engine is asked",
    async run(rig) {
      const answer = await (await rig.ask(post(CHAT, "content-length: 3\r\n"))).answer();
      isError(answer, 400, "request_invalid");
      assert.equal(rig.a.requests.length, 0);
    },
  },
  {
    name: "length and chunks at once (smuggling)",
    sees: "400; no engine is asked",
    async run(rig) {
      const answer = await (await rig.ask(post(CHAT, "transfer-encoding: chunked\r\n"))).answer();
      isError(answer, 400, "request_invalid");
      assert.equal(rig.a.requests.length, 0);
    },
  },
  {
    name: "chunked garbage",
    sees: "400; no engine is asked",
    async run(rig) {
      const head = post("").replace("content-length: 0", "transfer-encoding: chunked");
      isError(await (await rig.ask(`${head}zz\r\n`)).answer(), 400, "request_invalid");
      assert.equal(rig.a.requests.length, 0);
    },
  },
  {
    name: "chunks and trailers",
    sees: "200; the engine gets the body whole",
    async run(rig) {
      const head = post("").replace("content-length: 0", "transfer-encoding: chunked");
      const half = CHAT.length >> 1;
      const bytes = `${head}${chunk(CHAT.slice(0, half))}${chunk(CHAT.slice(half))}0\r\nx-sum: 1\r\n\r\n`;
      await wholeFrom(rig, "a", bytes);
      assert.equal(rig.a.requests[0]?.body, CHAT);
    },
  },
  {
    name: "upgrade to a web socket",
    sees: "the answer of plain HTTP; the engine is not asked to upgrade",
    async run(rig) {
      await wholeFrom(
        rig,
        "a",
        post(CHAT, "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"),
      );
      assert.doesNotMatch(rig.a.requests[0]?.head ?? "", /^(upgrade|connection: upgrade)/im);
    },
  },
  {
    name: "upgrade to h2c",
    sees: "the answer of HTTP/1.1",
    async run(rig) {
      await wholeFrom(
        rig,
        "a",
        post(CHAT, "connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: A\r\n"),
      );
      assert.doesNotMatch(rig.a.requests[0]?.head ?? "", /^(upgrade|http2-settings)/im);
    },
  },
  {
    name: "expects 100-continue",
    sees: "100, then 200",
    async run(rig) {
      const bytes = post(CHAT, "expect: 100-continue\r\n");
      const client = await rig.ask(bytes.slice(0, -CHAT.length));
      await client.saw("HTTP/1.1 100 Continue");
      client.send(CHAT);
      isWhole(await client.answer(), "a");
    },
  },
  {
    name: "two requests at once on a connection",
    sees: "both answers, in their order",
    async run(rig) {
      const client = await rig.ask(post(CHAT) + post(CHAT));
      assert.deepEqual([nodeOf(await client.answer()), nodeOf(await client.answer())], ["a", "b"]);
    },
  },
  {
    name: "CONNECT",
    sees: "405",
    async run(rig) {
      isError(await (await rig.ask("CONNECT x:1 HTTP/1.1\r\nhost: x\r\n\r\n")).answer(), 405, "request_invalid");
    },
  },
  {
    name: "body above the limit, without a length",
    sees: "413; no engine is asked",
    async run(rig) {
      const head = post("").replace("content-length: 0", "transfer-encoding: chunked");
      const client = await rig.ask(head);
      for (let i = 0; i < 20; i++) client.send(chunk("x".repeat(8192)));
      client.send(LAST_CHUNK);
      isError(await client.answer(), 413, "request_too_large");
      assert.equal(rig.a.requests.length, 0);
    },
  },
];
