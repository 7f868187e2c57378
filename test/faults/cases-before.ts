import assert from "node:assert/strict";
import { isError, nodeOf, streamFrom, wholeFrom } from "./expect.ts";
import { CHAT, post, STREAMED } from "./raw-client.ts";
import { chunk, finished, good, reply, type Script, STREAM_HEAD, WHOLE } from "./raw-engine.ts";
import { type FaultCase, type Rig, until } from "./rig.ts";

const reset: Script = (_request, socket) => void socket.resetAndDestroy();
const hang: Script = () => {};
/** Writes bytes and then what `then` says. */
const says =
  (bytes: string, then?: "end" | "reset"): Script =>
  (_request, socket) => {
    socket.write(bytes, () => {
      if (then === "end") socket.end();
      if (then === "reset") socket.resetAndDestroy();
    });
  };

/** A byte each 20 ms, for ever. */
export const drip =
  (start: string, byte: string): Script =>
  (_request, socket) => {
    socket.write(start);
    const timer = setInterval(() => socket.write(byte), 20);
    socket.once("close", () => clearInterval(timer));
  };

const otherAnswers = async (rig: Rig): Promise<void> => void (await wholeFrom(rig, "b"));
const otherStreams = async (rig: Rig): Promise<void> => void (await streamFrom(rig, "b"));

/** All engines fail before any byte: the client gets one clear error. */
const fails =
  (status: number, code: string, pattern: RegExp, body = CHAT) =>
  async (rig: Rig): Promise<void> => {
    isError(await (await rig.ask(post(body))).answer(), status, code, pattern);
  };

/** No connection, or one that ends before the answer's first byte. */
export const CONNECT_CASES: readonly FaultCase[] = [
  {
    name: "connection refused",
    sees: "200 from the other engine",
    async run(rig) {
      await rig.a.kill();
      await wholeFrom(rig, "b");
    },
  },
  {
    name: "connection refused by all",
    sees: "502 that says refused",
    async run(rig) {
      await rig.a.kill();
      await rig.b.kill();
      await fails(502, "upstream_failed", /refused/)(rig);
    },
  },
  {
    name: "connection cut when it is accepted",
    sees: "200 from the other engine",
    async run(rig) {
      rig.a.onConnection = (socket) => {
        socket.resetAndDestroy();
        return true;
      };
      await wholeFrom(rig, "b");
      assert.equal(rig.a.requests.length, 0);
    },
  },
  {
    name: "reset when the request is read",
    sees: "200 from the other engine, after one more try",
    a: reset,
    async run(rig) {
      await wholeFrom(rig, "b");
      assert.equal(rig.a.requests.length, 2);
    },
  },
  {
    name: "reset of a stream before its head",
    sees: "the whole stream from the other engine",
    a: reset,
    run: otherStreams,
  },
  {
    name: "reset by all",
    sees: "502 that says reset",
    a: reset,
    b: reset,
    run: fails(502, "upstream_failed", /reset/),
  },
  {
    name: "request that kills its engine",
    sees: "502 after two engines; the third is not risked",
    rig: { three: true },
    a: reset,
    b: reset,
    c: reset,
    async run(rig) {
      await fails(502, "upstream_failed", /after \d tries/)(rig);
      const asked = [rig.a, rig.b, rig.c].filter(({ requests }) => requests.length > 0);
      assert.equal(asked.length, 2);
    },
  },
  {
    name: "idle connection that the engine was closing",
    sees: "200 from the same engine, on a new connection",
    a: (request, socket) => {
      if (request.nth > 1) return void socket.resetAndDestroy();
      good(request, socket);
    },
    async run(rig) {
      rig.router.core.fleet.mark("b", "cordoned");
      for (let i = 0; i < 4; i++) await wholeFrom(rig, "a");
    },
  },
  {
    name: "engine half-closes before its answer",
    sees: "200 from the other engine",
    a: (_request, socket) => void socket.end(),
    run: otherAnswers,
  },
  {
    name: "engine half-closes after its answer",
    sees: "200, and the next request too",
    a: (_request, socket) => void socket.end(reply(200, WHOLE)),
    async run(rig) {
      rig.router.core.fleet.mark("b", "cordoned");
      for (let i = 0; i < 3; i++) await wholeFrom(rig, "a");
    },
  },
];

/** Connected, and no usable head comes. */
export const HEAD_CASES: readonly FaultCase[] = [
  { name: "hang before the head", sees: "200 from the other engine", short: true, a: hang, run: otherAnswers },
  {
    name: "hang of all before the head",
    sees: "504 that names answer_timeout",
    short: true,
    a: hang,
    b: hang,
    async run(rig) {
      await fails(504, "request_timeout", /answer_timeout/)(rig);
      await until("the engines are cut", () => rig.a.cut === 1 && rig.b.cut === 1);
    },
  },
  {
    name: "hang of a stream before its head",
    sees: "the whole stream from the other engine",
    short: true,
    a: hang,
    run: otherStreams,
  },
  {
    name: "stream's head, then nothing",
    sees: "the whole stream from the other engine",
    short: true,
    a: says(STREAM_HEAD),
    run: otherStreams,
  },
  {
    name: "nothing but comments, by all",
    sees: "504 that names first_token_timeout",
    short: true,
    a: drip(STREAM_HEAD, chunk(": alive\n\n")),
    b: drip(STREAM_HEAD, chunk(": alive\n\n")),
    run: fails(504, "request_timeout", /first_token_timeout/, STREAMED),
  },
  {
    name: "head that drips for ever",
    sees: "200 from the other engine",
    short: true,
    a: drip("HTTP/1.1 200 OK\r\nx-a: ", "a"),
    run: otherAnswers,
  },
  {
    name: "head of 100 KiB",
    sees: "200 from the other engine",
    a: says(reply(200, WHOLE, `x-a: ${"a".repeat(100 * 1024)}\r\n`)),
    run: otherAnswers,
  },
  { name: "no HTTP", sees: "200 from the other engine", a: says("SSH-2.0-OpenSSH_9.6\r\n"), run: otherAnswers },
  {
    name: "no HTTP, by all",
    sees: "502",
    a: says("\u0000\u0001\u0002\r\n\r\n"),
    b: says("HTTP/9.9 nonsense\r\n\r\n"),
    run: fails(502, "upstream_failed", /./),
  },
  {
    name: "two different lengths",
    sees: "200 from the other engine",
    a: says(reply(200, WHOLE, "content-length: 3\r\n")),
    run: otherAnswers,
  },
  {
    name: "unasked 101 Switching Protocols",
    sees: "200 from the other engine",
    a: says("HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"),
    run: otherAnswers,
  },
  {
    name: "100 Continue that nobody asked for",
    sees: "200",
    a: says(`HTTP/1.1 100 Continue\r\n\r\n${reply(200, WHOLE)}`),
    async run(rig) {
      await wholeFrom(rig, "a");
    },
  },
  {
    name: "103 Early Hints",
    sees: "200",
    a: says(`HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n${reply(200, WHOLE)}`),
    async run(rig) {
      await wholeFrom(rig, "a");
    },
  },
  ...["20", "099", "600", "999"].map(
    (status): FaultCase => ({
      name: `status ${status}`,
      sees: Number(status) < 100 ? "200 from the other engine" : "that status",
      a: (_request, socket) => {
        socket.write(reply(200, WHOLE).replace("200 X", `${status} X`));
        finished(socket);
      },
      async run(rig) {
        const answer = await (await rig.ask(post(CHAT))).answer();
        assert.equal(answer.status, Number(status) < 100 ? 200 : Number(status));
        assert(answer.whole);
      },
    }),
  ),
  ...["x-a: \u0001", "x-\u00e9: 1", "x-a: \u00e9\u00ff", "x a: 1", ": 1", "x-a: 1\r\n folded"].map(
    (header): FaultCase => ({
      name: `header ${JSON.stringify(header)}`,
      sees: "200, from whichever engine",
      a: (_request, socket) => {
        socket.write(Buffer.from(reply(200, WHOLE, `${header}\r\n`), "latin1"));
        finished(socket);
      },
      async run(rig) {
        const answer = await (await rig.ask(post(CHAT))).answer();
        assert.deepEqual([answer.status, answer.whole], [200, true]);
      },
    }),
  ),
  {
    name: "header twice",
    sees: "200 with both",
    a: (_request, socket) => {
      socket.write(reply(200, WHOLE, "set-cookie: a=1\r\nset-cookie: b=2\r\nx-two: 1\r\nx-two: 2\r\n"));
      finished(socket);
    },
    async run(rig) {
      const { head } = await wholeFrom(rig, "a");
      assert.equal(head.match(/^set-cookie: [ab]=[12]$/gim)?.length, 2);
      assert.match(head.match(/^x-two: .*$/gim)?.join() ?? "", /1.*2/);
    },
  },
  {
    name: "redirect to elsewhere",
    sees: "502",
    a: says("HTTP/1.1 307 X\r\nlocation: http://10.0.0.1/\r\ncontent-length: 0\r\n\r\n"),
    run: fails(502, "upstream_failed", /redirect/),
  },
  {
    name: "answer before the body was sent, connection kept",
    sees: "the engine's 413",
    rig: { settings: { maxBodyBytes: 64 * 1024 * 1024 } },
    async run(rig) {
      rig.a.onHead = (socket) => {
        socket.write(reply(413, '{"error":{"message":"too long"}}', "connection: close\r\n"));
        finished(socket);
        return true;
      };
      const big = CHAT.replace("What", "a".repeat(8 * 1024 * 1024));
      const answer = await (await rig.ask(post(big))).answer();
      assert.deepEqual([answer.status, nodeOf(answer), answer.body], [413, "a", '{"error":{"message":"too long"}}']);
    },
  },
  {
    name: "answer before the body was sent, connection closed",
    sees: "the engine's 413, or 200 from the other engine",
    rig: { settings: { maxBodyBytes: 64 * 1024 * 1024 } },
    async run(rig) {
      rig.a.onHead = (socket) => {
        socket.end(reply(413, '{"error":{"message":"too long"}}', "connection: close\r\n"), () => socket.destroy());
        return true;
      };
      const big = CHAT.replace("What", "a".repeat(8 * 1024 * 1024));
      const answer = await (await rig.ask(post(big))).answer();
      // Its answer may be lost with the connection; then the other one is asked.
      const seen = [answer.status, nodeOf(answer)].join();
      assert(["413,a", "200,b"].includes(seen), seen);
      assert(answer.whole);
    },
  },
];
