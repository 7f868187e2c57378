import assert from "node:assert/strict";
import { isBroken, isError, isWhole } from "../faults/expect.ts";
import { CHAT, post, STREAMED } from "../faults/raw-client.ts";
import { chunk, event, finished, good, reply, type Script, STREAM_HEAD } from "../faults/raw-engine.ts";
import { until } from "../faults/rig.ts";
import { pairAnswers, pairStreams, prefillOf } from "./expect.ts";
import { bodyOf, IMPATIENT, type Name, type PairCase, type PairRig } from "./rig.ts";

const hang: Script = () => {};
const reset: Script = (_request, socket) => void socket.resetAndDestroy();
const answers =
  (status: number, body: string): Script =>
  (_request, socket) => {
    socket.write(reply(status, body));
    finished(socket);
  };
const always = (script: Script) => (): Script => script;
const ERROR = '{"object":"error","message":"too long","type":"BadRequestError","code":400}';

const ONE_EACH = ["p1", "d1"] as const;
const TWO_PREFILLS = ["p1", "p2", "d1"] as const;

const bootstrap = (test: Omit<PairCase, "protocol">): PairCase => ({ protocol: "bootstrap", ...test });

const roomsOf = (rig: PairRig, name: Name): unknown[] =>
  rig.engines[name].requests.map((request) => bodyOf(request)["bootstrap_room"]);

/** SGLang: both legs at once. */
export const BOOTSTRAP_CASES: readonly PairCase[] = [
  bootstrap({
    name: "whole answer",
    sees: "200; one body for both legs",
    there: ONE_EACH,
    async run(rig) {
      await pairAnswers(rig, "p1", "d1");
      const [p, d] = [rig.engines.p1.requests[0]!, rig.engines.d1.requests[0]!];
      assert.equal(p.body, d.body);
      const { bootstrap_host: host, bootstrap_port: port, bootstrap_room: room, ...rest } = bodyOf(p);
      assert.deepEqual([host, port, Number.isSafeInteger(room), rest], ["127.0.0.1", 9_000, true, JSON.parse(CHAT)]);
    },
  }),
  bootstrap({
    name: "stream",
    sees: "the whole stream",
    there: ONE_EACH,
    run: async (rig) => void (await pairStreams(rig, "p1")),
  }),
  bootstrap({
    name: "20 at once",
    sees: "200, each in a room of its own",
    async run(rig) {
      await Promise.all(Array.from({ length: 20 }, () => pairAnswers(rig, "p1", /^d/)));
      assert.equal(new Set(roomsOf(rig, "p1")).size, 20);
    },
  }),
  bootstrap({
    name: "n = 2",
    sees: "200; two rooms",
    there: ONE_EACH,
    async run(rig) {
      await pairAnswers(rig, "p1", "d1", post(CHAT.replace("{", '{"n":2,')));
      const [rooms] = roomsOf(rig, "p1") as [number[]];
      assert.equal(new Set(rooms).size, 2);
      assert.deepEqual(bodyOf(rig.engines.d1.requests[0]!)["bootstrap_port"], [9_000, 9_000]);
    },
  }),
  bootstrap({
    name: "client sends bootstrap fields of its own",
    sees: "200; neither engine saw them",
    there: ONE_EACH,
    async run(rig) {
      const own = '"bootstrap_host":"evil","bootstrap_port":1,"bootstrap_room":5,"disagg_prefill_dp_rank":3,';
      await pairAnswers(rig, "p1", "d1", post(CHAT.replace("{", `{${own}`)));
      for (const name of ONE_EACH) {
        const body = bodyOf(rig.engines[name].requests[0]!);
        assert.deepEqual([body["bootstrap_host"], body["disagg_prefill_dp_rank"]], ["127.0.0.1", undefined]);
        assert.notEqual(body["bootstrap_room"], 5);
      }
    },
  }),
  bootstrap({
    name: "data-parallel ranks",
    sees: "200; each leg goes to the rank that was chosen, and the decode is told the prefill's",
    there: ONE_EACH,
    workers: {
      p1: { rank: { index: 2, of: 4 }, traits: { rankMember: "routed_dp_rank" } },
      d1: { rank: { index: 1, of: 2 }, traits: { rankMember: "routed_dp_rank" } },
    },
    async run(rig) {
      await pairAnswers(rig, "p1", "d1");
      const [p, d] = ONE_EACH.map((name) => bodyOf(rig.engines[name].requests[0]!));
      assert.deepEqual([p!["routed_dp_rank"], p!["disagg_prefill_dp_rank"]], [2, undefined]);
      assert.deepEqual([d!["routed_dp_rank"], d!["disagg_prefill_dp_rank"]], [1, 2]);
    },
  }),
  bootstrap({
    name: "no decode engine",
    sees: "503 that says so",
    there: ["p1"],
    async run(rig) {
      isError(await (await rig.ask(post(CHAT))).answer(), 503, "no_worker", /no decode engine/);
      assert.equal(rig.engines.p1.requests.length, 0);
    },
  }),
  bootstrap({
    name: "no prefill engine",
    sees: "503 that says so",
    there: ["d1"],
    async run(rig) {
      isError(await (await rig.ask(post(CHAT))).answer(), 503, "no_worker", /no prefill engine/);
    },
  }),
  bootstrap({
    name: "prefill refuses connections",
    sees: "200 through the other one, in a fresh room; the waiting decode leg was cut",
    there: TWO_PREFILLS,
    async run(rig) {
      await rig.engines.p1.kill();
      await pairAnswers(rig, "p2", "d1");
      assert.equal(new Set(roomsOf(rig, "d1")).size, rig.engines.d1.requests.length);
    },
  }),
  bootstrap({
    name: "prefill resets, always",
    sees: "502 that names the leg; the decode leg is cut",
    there: ONE_EACH,
    scripts: { p1: always(reset) },
    async run(rig) {
      isError(await (await rig.ask(post(CHAT))).answer(), 502, "upstream_failed", /prefill leg/);
      await until("the decode legs are cut", () => rig.engines.d1.sockets.size === 0 || rig.engines.d1.cut > 0);
    },
  }),
  bootstrap({
    name: "prefill answers 400",
    sees: "its own 400; the decode leg is cut",
    there: ONE_EACH,
    scripts: { p1: always(answers(400, ERROR)) },
    async run(rig) {
      const answer = await (await rig.ask(post(STREAMED))).answer();
      assert.deepEqual([answer.status, answer.body, prefillOf(answer)], [400, ERROR, "p1"]);
    },
  }),
  bootstrap({
    name: "prefill answers 500",
    sees: "200 through the other one",
    there: TWO_PREFILLS,
    scripts: { p1: always(answers(500, "{}")) },
    run: async (rig) => void (await pairAnswers(rig, "p2", "d1")),
  }),
  bootstrap({
    name: "prefill hangs",
    settings: IMPATIENT,
    sees: "200 through the other one after prefill_timeout, both legs of the first try cut",
    there: TWO_PREFILLS,
    scripts: { p1: always(hang) },
    async run(rig) {
      await pairAnswers(rig, "p2", "d1");
      await until("the first try is cut", () => rig.engines.p1.cut === 1 && rig.engines.d1.cut === 1);
    },
  }),
  bootstrap({
    name: "prefill's process is gone",
    sees: "200 through the other one at once",
    there: TWO_PREFILLS,
    scripts: { p1: always(hang) },
    settings: { disagg: { splits: true, colocateBelowTokens: 0, prefillTimeoutMs: 60_000 } },
    async run(rig) {
      const client = await rig.ask(post(CHAT));
      await until("p1 has its leg", () => rig.engines.p1.requests.length === 1);
      rig.set("p1", { state: "down", reason: "killed" });
      const answer = await client.answer();
      isWhole(answer, "d1");
      assert.equal(prefillOf(answer), "p2");
    },
  }),
  bootstrap({
    name: "decode refuses connections",
    sees: "200 by the other one; the waiting prefill leg was cut",
    async run(rig) {
      await rig.engines.d1.kill();
      for (let n = 0; n < 3; n++) await pairAnswers(rig, "p1", "d2");
    },
  }),
  bootstrap({
    name: "decode answers 400",
    sees: "its own 400; the prefill leg is cut",
    there: ONE_EACH,
    scripts: { d1: always(answers(400, ERROR)) },
    async run(rig) {
      const answer = await (await rig.ask(post(CHAT))).answer();
      assert.deepEqual([answer.status, answer.body], [400, ERROR]);
    },
  }),
  bootstrap({
    name: "decode resets before its answer",
    sees: "502; both legs of each try are cut",
    there: ONE_EACH,
    scripts: { d1: always(reset) },
    async run(rig) {
      isError(await (await rig.ask(post(CHAT))).answer(), 502, "upstream_failed", /d1 failed/);
    },
  }),
  bootstrap({
    name: "decode dies in the midst of a stream",
    sees: "what came, then an error event",
    there: ONE_EACH,
    scripts: {
      p1: always(good),
      d1: always((_request, socket) => {
        socket.write(STREAM_HEAD + chunk(event("The capital")), () => socket.resetAndDestroy());
      }),
    },
    async run(rig) {
      isBroken(await (await rig.ask(post(STREAMED))).answer(), "The capital", /failed before its answer ended/);
    },
  }),
  bootstrap({
    name: "client leaves while both legs wait",
    sees: "nothing; both are cut",
    there: ONE_EACH,
    scripts: { p1: always(hang), d1: always(hang) },
    async run(rig) {
      const client = await rig.ask(post(CHAT));
      await until("both legs are there", () => ONE_EACH.every((name) => rig.engines[name].requests.length === 1));
      client.socket.destroy();
      await until("both legs are cut", () => ONE_EACH.every((name) => rig.engines[name].cut === 1));
    },
  }),
];
