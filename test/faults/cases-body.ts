import assert from "node:assert/strict";
import { drip } from "./cases-before.ts";
import { isBroken, isError, nodeOf, streamFrom, textOf, wholeFrom } from "./expect.ts";
import { CHAT, post, STREAMED } from "./raw-client.ts";
import {
  chunk,
  DONE,
  event,
  finished,
  LAST_CHUNK,
  reply,
  type Script,
  STREAM,
  STREAM_HEAD,
  WHOLE,
} from "./raw-engine.ts";
import { type FaultCase, type Rig, until } from "./rig.ts";

const says =
  (bytes: string, then?: "end" | "reset"): Script =>
  (_request, socket) => {
    socket.write(bytes, () => {
      if (then === "end") socket.end();
      else if (then === "reset") socket.resetAndDestroy();
      else finished(socket);
    });
  };
const CHUNKED = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
const TO_CLOSE = "HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n";
const cut = reply(200, WHOLE).slice(0, -20);
const otherAnswers = async (rig: Rig): Promise<void> => void (await wholeFrom(rig, "b"));
const sameAnswers = async (rig: Rig): Promise<void> => void (await wholeFrom(rig, "a"));

/** A whole answer that goes wrong after its head. */
export const WHOLE_CASES: readonly FaultCase[] = [
  { name: "shorter than its length, FIN", sees: "200 from the other engine", a: says(cut, "end"), run: otherAnswers },
  {
    name: "shorter than its length, reset",
    sees: "200 from the other engine",
    a: says(cut, "reset"),
    run: otherAnswers,
  },
  {
    name: "shorter than its length, by all",
    sees: "502",
    a: says(cut, "end"),
    b: says(cut, "end"),
    async run(rig) {
      isError(await (await rig.ask(post(CHAT))).answer(), 502, "upstream_failed");
    },
  },
  {
    name: "longer than its length",
    sees: "200 with what the length says, and the next request too",
    a: says(`${reply(200, WHOLE)}more than promised`),
    async run(rig) {
      rig.router.core.fleet.mark("b", "cordoned");
      for (let i = 0; i < 3; i++) await wholeFrom(rig, "a");
    },
  },
  {
    name: "chunked garbage",
    sees: "200 from the other engine",
    a: says(`${CHUNKED}zz\r\nnonsense`),
    run: otherAnswers,
  },
  {
    name: "chunked, cut",
    sees: "200 from the other engine",
    a: says(CHUNKED + chunk(WHOLE), "end"),
    run: otherAnswers,
  },
  {
    name: "to the connection's end, whole",
    sees: "200",
    a: says(TO_CLOSE + WHOLE, "end"),
    run: sameAnswers,
  },
  {
    name: "to the connection's end, cut",
    sees: "200 from the other engine",
    a: says(TO_CLOSE + WHOLE.slice(0, -9), "end"),
    run: otherAnswers,
  },
  {
    name: "body that drips for ever",
    sees: "200 from the other engine",
    short: true,
    a: drip(reply(200, WHOLE).replace(/content-length: \d+/, "content-length: 90000"), " "),
    run: otherAnswers,
  },
  {
    name: "trailers",
    sees: "200",
    a: says(`${CHUNKED}${chunk(WHOLE)}0\r\nx-checksum: 1\r\n\r\n`),
    run: sameAnswers,
  },
  {
    name: "large answer that is cut",
    sees: "part of the body, then the connection's end: its length tells that it is not whole",
    a: (_request, socket) => {
      const big = "a".repeat(6 * 1024 * 1024);
      socket.write(reply(200, big).slice(0, -1024 * 1024), () => socket.end());
    },
    async run(rig) {
      const answer = await (await rig.ask(post(CHAT))).answer();
      assert.deepEqual([answer.status, answer.whole], [200, false]);
    },
  },
  {
    name: "no JSON, though it says so",
    sees: "the bytes as they are",
    a: says(reply(200, "<html>")),
    async run(rig) {
      const answer = await (await rig.ask(post(CHAT))).answer();
      assert.deepEqual([answer.status, answer.body, answer.whole], [200, "<html>", true]);
    },
  },
  {
    name: "empty 200",
    sees: "the same",
    a: says(reply(200, "")),
    async run(rig) {
      const answer = await (await rig.ask(post(CHAT))).answer();
      assert.deepEqual([answer.status, answer.body, answer.whole], [200, "", true]);
    },
  },
];

const first = STREAM_HEAD + chunk(event("The capital"));
const broken =
  (pattern: RegExp) =>
  async (rig: Rig): Promise<void> => {
    isBroken(await (await rig.ask(post(STREAMED))).answer(), "The capital", pattern);
    assert.equal(rig.b.requests.length, 0);
  };
const MIB_5 = "x".repeat(5 * 1024 * 1024);

/** A stream that goes wrong after its first event: another engine cannot answer any more. */
export const STREAM_CASES: readonly FaultCase[] = [
  {
    name: "reset after the first event",
    sees: "the text, an error event, the end",
    a: says(first, "reset"),
    run: broken(/reset/i),
  },
  {
    name: "FIN after the first event",
    sees: "the text, an error event, the end",
    a: says(first, "end"),
    run: broken(/./),
  },
  {
    name: "ends in order, without a finish",
    sees: "the text, an error event, the end",
    a: says(first + LAST_CHUNK),
    run: broken(/without a finish/),
  },
  {
    name: "half an event, then reset",
    sees: "the text without the half event, an error event, the end",
    a: says(first + chunk('data: {"choices":[{"delta":{"content":" hal'), "reset"),
    run: broken(/./),
  },
  { name: "chunked garbage", sees: "the text, an error event, the end", a: says(`${first}zz\r\n`), run: broken(/./) },
  {
    name: "silence",
    sees: "the text, an error event that names stall_timeout",
    short: true,
    a: says(first),
    run: broken(/stall_timeout/),
  },
  {
    name: "silence but for comments",
    sees: "the text, an error event that names stall_timeout",
    short: true,
    a: drip(first, chunk(": alive\n\n")),
    async run(rig) {
      isBroken(await (await rig.ask(post(STREAMED))).answer(), "The capital", /stall_timeout/);
      await until("the engine is cut", () => rig.a.cut === 1);
    },
  },
  {
    name: "an event that drips for ever",
    sees: "the text, an error event that names stall_timeout",
    short: true,
    a: drip(`${first}`, chunk("x")),
    run: broken(/stall_timeout/),
  },
  {
    name: "data that is no JSON",
    sees: "the bytes as they are",
    a: says(STREAM_HEAD + chunk(`data: {nonsense\n\nid: 7\nevent: odd\ndata: a\ndata: b\n\n${STREAM}`) + LAST_CHUNK),
    async run(rig) {
      const answer = await (await rig.ask(post(STREAMED))).answer();
      assert.equal(answer.body, `data: {nonsense\n\nid: 7\nevent: odd\ndata: a\ndata: b\n\n${STREAM}`);
    },
  },
  {
    name: "CRLF lines, cut anywhere",
    sees: "the bytes as they are",
    a: (_request, socket) => {
      const bytes = STREAM.replaceAll("\n", "\r\n");
      socket.write(STREAM_HEAD + [...bytes].map(chunk).join("") + LAST_CHUNK);
      finished(socket);
    },
    async run(rig) {
      const answer = await (await rig.ask(post(STREAMED))).answer();
      assert.deepEqual([answer.body, answer.whole], [STREAM.replaceAll("\n", "\r\n"), true]);
    },
  },
  {
    name: "the engine's own error event",
    sees: "that event, as it is",
    a: says(`${first}${chunk('data: {"error":{"message":"mine","code":500}}\n\n')}${LAST_CHUNK}`),
    async run(rig) {
      const answer = await (await rig.ask(post(STREAMED))).answer();
      assert(answer.whole);
      assert(answer.body.endsWith('data: {"error":{"message":"mine","code":500}}\n\n'));
    },
  },
  {
    name: "an event of 5 MiB",
    sees: "the bytes as they are",
    a: says(`${STREAM_HEAD}${chunk(`${event(MIB_5)}${event("", "stop")}${DONE}`)}${LAST_CHUNK}`),
    async run(rig) {
      const answer = await (await rig.ask(post(STREAMED))).answer();
      assert.deepEqual([answer.whole, textOf(answer.body).length], [true, MIB_5.length]);
    },
  },
  {
    name: "400 in JSON instead of a stream",
    sees: "the engine's 400",
    a: says(reply(400, '{"error":{"message":"mine"}}')),
    async run(rig) {
      const answer = await (await rig.ask(post(STREAMED))).answer();
      assert.deepEqual([answer.status, answer.body], [400, '{"error":{"message":"mine"}}']);
    },
  },
  {
    name: "engine goes down in the midst, its connection open",
    sees: "the text, an error event that says why",
    a: says(first),
    async run(rig) {
      const client = await rig.ask(post(STREAMED));
      await client.saw("The capital");
      rig.set("a", { state: "down", reason: "killed" });
      isBroken(await client.answer(), "The capital", /killed/);
    },
  },
  {
    name: "engine is restarted before its first token",
    sees: "the whole stream from the other engine",
    a: says(STREAM_HEAD),
    async run(rig) {
      const client = await rig.ask(post(STREAMED));
      await until("the engine has it", () => rig.a.requests.length === 1);
      rig.set("a", { epoch: 2 });
      const answer = await client.answer();
      assert.deepEqual([answer.status, nodeOf(answer), textOf(answer.body)], [200, "b", "The capital is Paris."]);
    },
  },
  {
    name: "engine is taken out in the midst",
    sees: "the text, an error event that says so",
    a: says(first),
    async run(rig) {
      const client = await rig.ask(post(STREAMED));
      await client.saw("The capital");
      rig.directory.remove(rig.directory.list()[0]!.id);
      isBroken(await client.answer(), "The capital", /taken out/);
    },
  },
  {
    name: "a stream that goes well",
    sees: "its events and [DONE]",
    async run(rig) {
      await streamFrom(rig, "a");
    },
  },
];
