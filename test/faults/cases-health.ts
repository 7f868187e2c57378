import assert from "node:assert/strict";
import { workerId } from "../../src/core/ids.ts";
import { isError, nodeOf, wholeFrom } from "./expect.ts";
import { CHAT, post, STREAMED } from "./raw-client.ts";
import { chunk, event, finished, good, LAST_CHUNK, reply, type Script, STREAM_HEAD } from "./raw-engine.ts";
import { type FaultCase, type Rig, until } from "./rig.ts";

const OWN = '{"error":{"message":"mine"}}';
const answers =
  (status: number, body = OWN, headers = ""): Script =>
  (_request, socket) => {
    socket.write(reply(status, body, headers));
    finished(socket);
  };
const breaker = (rig: Rig): string => rig.router.core.health.breaker(workerId("a")).at;

/** The engine's own word to the client: passed on as it is, no other engine is asked, and no sign against its health. */
const own = [400, 401, 404, 413, 422, 429, 500, 501].map(
  (status): FaultCase => ({
    name: `engine answers ${status}`,
    sees: `the engine's ${status}, with its Retry-After`,
    a: answers(status, OWN, "retry-after: 7\r\n"),
    async run(rig) {
      const answer = await (await rig.ask(post(CHAT))).answer();
      assert.deepEqual([answer.status, answer.body, nodeOf(answer)], [status, OWN, "a"]);
      assert.match(answer.head, /^retry-after: 7$/im);
      assert.equal(rig.b.requests.length, 0);
    },
  }),
);

/** Answers that another engine may better. */
const bettered = [502, 503, 504].flatMap((status): FaultCase[] => [
  {
    name: `engine answers ${status}`,
    sees: "200 from the other engine",
    a: answers(status),
    async run(rig) {
      await wholeFrom(rig, "b");
      assert.equal(rig.a.requests.length, 1);
    },
  },
  {
    name: `all answer ${status}`,
    sees: `the last engine's own ${status}`,
    rig: { three: true },
    a: answers(status),
    b: answers(status),
    c: answers(status),
    async run(rig) {
      const answer = await (await rig.ask(post(CHAT))).answer();
      assert.deepEqual([answer.status, answer.body], [status, OWN]);
      assert.deepEqual(
        [rig.a, rig.b, rig.c].map((engine) => engine.requests.length),
        [1, 1, 1],
      );
    },
  },
]);

export const STATUS_CASES: readonly FaultCase[] = [
  ...own,
  ...bettered,
  {
    name: "vLLM's 500 while it drains",
    sees: "200 from the other engine",
    a: answers(500, '{"error":{"message":"cannot schedule new futures after shutdown"}}'),
    async run(rig) {
      await wholeFrom(rig, "b");
    },
  },
  {
    name: "503 of all, to a stream",
    sees: "the engine's own 503",
    a: answers(503),
    b: answers(503),
    async run(rig) {
      const answer = await (await rig.ask(post(STREAMED))).answer();
      assert.deepEqual([answer.status, answer.body], [503, OWN]);
    },
  },
];

const ready = (): void => {};
const streamThen: Script = (_request, socket) => {
  socket.write(STREAM_HEAD + chunk(event("The capital")));
  ends.set(socket, () => {
    socket.write(chunk(`${event("", "stop")}data: [DONE]\n\n`) + LAST_CHUNK);
    finished(socket);
  });
};
const ends = new WeakMap<object, () => void>();
const finish = (rig: Rig): void => {
  for (const socket of rig.a.sockets) (ends.get(socket) ?? ready)();
};

/** Whom the router asks, and when it asks again. */
export const HEALTH_CASES: readonly FaultCase[] = [
  {
    name: "engine fails again and again",
    sees: "200 from the other engine; after five failures the first is not asked any more",
    a: answers(503),
    async run(rig) {
      rig.a.healthy = false;
      for (let i = 0; i < 14; i++) await wholeFrom(rig, "b");
      assert.equal(rig.a.requests.length, 5);
      assert.equal(breaker(rig), "open");
    },
  },
  {
    name: "engine that failed recovers",
    sees: "200 from it again, after a look and one answer",
    a: answers(503),
    async run(rig) {
      for (let i = 0; i < 10; i++) await wholeFrom(rig, "b");
      rig.a.script = good;
      await until("it is closed", async () => {
        assert.equal((await (await rig.ask(post(CHAT))).answer()).status, 200);
        return breaker(rig) === "closed";
      });
    },
  },
  {
    name: "engine dies and comes back at its port",
    sees: "200 throughout",
    async run(rig) {
      await wholeFrom(rig, "a");
      await rig.a.kill();
      for (let i = 0; i < 6; i++) await wholeFrom(rig, "b");
      assert.equal(breaker(rig), "open");
      await rig.a.revive();
      await until("it is asked again", async () => nodeOf(await (await rig.ask(post(CHAT))).answer()) === "a");
      // With threads the answer's end is told a moment after the client has it.
      await until("it is closed", () => breaker(rig) === "closed");
    },
  },
  {
    name: "all engines' breakers are open",
    sees: "the engines' own 503, never a refusal; 200 as soon as one answers",
    a: answers(503),
    b: answers(503),
    async run(rig) {
      for (let i = 0; i < 8; i++) assert.equal((await (await rig.ask(post(CHAT))).answer()).body, OWN);
      rig.a.script = rig.b.script = good;
      assert.equal((await (await rig.ask(post(CHAT))).answer()).status, 200);
    },
  },
  {
    name: "429 again and again",
    sees: "the engine's 429; its breaker stays closed",
    a: answers(429),
    b: answers(429),
    async run(rig) {
      for (let i = 0; i < 12; i++) assert.equal((await (await rig.ask(post(CHAT))).answer()).status, 429);
      assert.equal(breaker(rig), "closed");
    },
  },
  {
    name: "no engine is ready",
    sees: "503 with each one's reason and Retry-After",
    rig: { workers: { state: "starting", reason: "loading" } },
    async run(rig) {
      const answer = await (await rig.ask(post(CHAT))).answer();
      isError(answer, 503, "no_worker", /a starting: loading; b starting: loading/);
      assert.match(answer.head, /^retry-after: 5$/im);
    },
  },
  {
    name: "router drains",
    sees: "the stream to its end; no new connection",
    a: streamThen,
    async run(rig) {
      const client = await rig.ask(post(STREAMED));
      await client.saw("The capital");
      const drained = rig.router.drain(60_000);
      // Threads hear of it a moment later.
      const refused = (): Promise<boolean> =>
        rig.client().then(
          (early) => {
            early.socket.destroy();
            return false;
          },
          () => true,
        );
      await until("no new connection", refused);
      finish(rig);
      assert((await client.answer()).body.endsWith("[DONE]\n\n"));
      await drained;
    },
  },
  {
    name: "engine drains",
    sees: "the stream to its end; new requests go to the other engine",
    a: streamThen,
    async run(rig) {
      const client = await rig.ask(post(STREAMED));
      await client.saw("The capital");
      rig.set("a", { state: "draining", reason: "reload" });
      for (let i = 0; i < 3; i++) await wholeFrom(rig, "b");
      finish(rig);
      const answer = await client.answer();
      assert.deepEqual([nodeOf(answer), answer.body.endsWith("[DONE]\n\n")], ["a", true]);
    },
  },
];
