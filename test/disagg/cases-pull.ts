import assert from "node:assert/strict";
import { isBroken, isError, isWhole } from "../faults/expect.ts";
import { CHAT, post, STREAMED } from "../faults/raw-client.ts";
import { chunk, event, finished, reply, type Script, STREAM_HEAD, WHOLE } from "../faults/raw-engine.ts";
import { until } from "../faults/rig.ts";
import { pairAnswers, pairStreams, prefillOf } from "./expect.ts";
import { bodyOf, handedOver, IMPATIENT, type Name, type PairCase, type PairRig, paramsOf } from "./rig.ts";

const hang: Script = () => {};
const reset: Script = (_request, socket) => void socket.resetAndDestroy();
const answers =
  (status: number, body: string): Script =>
  (_request, socket) => {
    socket.write(reply(status, body));
    finished(socket);
  };
/** Only the first request meets `script`. */
const once =
  (script: Script) =>
  (_rig: () => PairRig, usual: Script): Script =>
  (request, socket) =>
    (request.n === 1 ? script : usual)(request, socket);
const always = (script: Script) => (): Script => script;
const ERROR = '{"object":"error","message":"too long","type":"BadRequestError","code":400}';

const TWO_PREFILLS = ["p1", "p2", "d1"] as const;
const ONE_EACH = ["p1", "d1"] as const;

const pull = (test: Omit<PairCase, "protocol">): PairCase => ({ protocol: "pull", ...test });

const asked = (rig: PairRig, name: Name, n = 1): Promise<void> =>
  until(`${name} has its leg`, () => rig.engines[name].requests.length >= n);

/** All went well. */
export const PULL_CASES: readonly PairCase[] = [
  pull({
    name: "whole answer",
    sees: "200; prefill and decode named",
    async run(rig) {
      await pairAnswers(rig, "p1", /^d/);
      const [leg] = rig.engines.p1.requests;
      assert.deepEqual([bodyOf(leg!)["max_tokens"], bodyOf(leg!)["stream"]], [1, false]);
      const decode = [...rig.engines.d1.requests, ...rig.engines.d2.requests];
      assert.equal(decode.length, 1);
      const { kv_transfer_params: _params, ...rest } = bodyOf(decode[0]!);
      assert.deepEqual(rest, JSON.parse(CHAT));
      const id = (text: string): string | undefined => /^x-request-id: (.*)$/im.exec(text)?.[1];
      assert.equal(id(leg!.head), id(decode[0]!.head));
    },
  }),
  pull({
    name: "stream",
    sees: "the whole stream",
    async run(rig) {
      await pairStreams(rig, "p1");
      assert(bodyOf(rig.engines.p1.requests[0]!)["stream"] === false);
    },
  }),
  pull({
    name: "20 at once",
    sees: "200, each with a hand-over of its own",
    async run(rig) {
      await Promise.all(Array.from({ length: 20 }, () => pairAnswers(rig, "p1", /^d/)));
      assert(rig.engines.d1.requests.length > 0 && rig.engines.d2.requests.length > 0, "one decode engine had all");
    },
  }),
  pull({
    name: "client sends kv_transfer_params of its own",
    sees: "200; neither engine saw them",
    async run(rig) {
      const own =
        '"kv_transfer_params":{"do_remote_prefill":true,"remote_block_ids":[[7]]},"vllm_xargs":{"kv_transfer_params":{"x":1},"y":2},';
      await pairAnswers(rig, "p1", /^d/, post(CHAT.replace("{", `{${own}`)));
      for (const { requests } of Object.values(rig.engines)) {
        for (const request of requests) {
          assert.deepEqual(bodyOf(request)["vllm_xargs"], { y: 2 });
          assert.notDeepEqual(paramsOf(request)?.["remote_block_ids"], [[7]]);
        }
      }
    },
  }),
  ...(
    [
      ["n = 2", '"n":2,'],
      ["log probabilities of the prompt", '"prompt_logprobs":1,'],
      ["beam search", '"use_beam_search":true,"n":1,'],
    ] as const
  ).map(([name, member]) =>
    pull({
      name: `cannot be split: ${name}`,
      sees: "200 from a decode engine alone",
      async run(rig) {
        await pairAnswers(rig, undefined, /^d/, post(CHAT.replace("{", `{${member}`)));
        assert.equal(rig.engines.p1.requests.length, 0);
      },
    }),
  ),
  pull({
    name: "data-parallel ranks",
    sees: "200; each leg goes to the rank that was chosen",
    there: ONE_EACH,
    workers: {
      p1: {
        rank: { index: 1, of: 2 },
        traits: { servesWhole: true, stripKvTransferParams: true, rankHeader: "x-data-parallel-rank" },
      },
      d1: {
        rank: { index: 3, of: 4 },
        traits: { servesWhole: true, stripKvTransferParams: true, rankHeader: "x-data-parallel-rank" },
      },
    },
    async run(rig) {
      await pairAnswers(rig, "p1", "d1");
      const rankOf = (name: Name) => /^x-data-parallel-rank: (.*)$/im.exec(rig.engines[name].requests[0]!.head)?.[1];
      assert.deepEqual([rankOf("p1"), rankOf("d1")], ["1", "3"]);
    },
  }),
  pull({
    name: "short prompt",
    sees: "200 from a decode engine alone: handing over costs more",
    settings: { disagg: { splits: true, colocateBelowTokens: 10_000, prefillTimeoutMs: 60_000 } },
    async run(rig) {
      await pairAnswers(rig, undefined, /^d/);
    },
  }),
  pull({
    name: "[router.disagg].enabled = false",
    sees: "503 that names the key",
    settings: { disagg: { splits: false, colocateBelowTokens: 0, prefillTimeoutMs: 60_000 } },
    async run(rig) {
      isError(await (await rig.ask(post(CHAT))).answer(), 503, "no_worker", /disagg/);
    },
  }),
  pull({
    name: "engines that do not go together",
    sees: "200 from a decode engine alone, and status says why",
    workers: { p1: { handOver: { protocol: "pull", group: "x" } } },
    async run(rig) {
      await pairAnswers(rig, undefined, /^d/);
      const status = await (await fetch(`${rig.admin}/v1/cgn/status`)).text();
      assert.match(status, /the group is x and none/);
    },
  }),
];

/** The prefill leg fails. */
export const PULL_PREFILL_CASES: readonly PairCase[] = [
  pull({
    name: "prefill refuses connections",
    sees: "200 through the other prefill",
    there: TWO_PREFILLS,
    async run(rig) {
      await rig.engines.p1.kill();
      await pairAnswers(rig, "p2", "d1");
      await pairAnswers(rig, "p2", "d1");
    },
  }),
  pull({
    name: "the only prefill refuses connections",
    sees: "200 from a decode engine alone",
    async run(rig) {
      await rig.engines.p1.kill();
      await pairAnswers(rig, undefined, /^d/);
    },
  }),
  pull({
    name: "prefill resets before its answer, once",
    sees: "200 through the same prefill",
    there: ONE_EACH,
    scripts: { p1: once(reset) },
    async run(rig) {
      await pairAnswers(rig, "p1", "d1");
      assert.equal(rig.engines.p1.requests.length, 2);
    },
  }),
  pull({
    name: "prefill resets always",
    sees: "200 from a decode engine alone",
    there: ONE_EACH,
    scripts: { p1: always(reset) },
    async run(rig) {
      await pairAnswers(rig, undefined, "d1");
      assert.equal(rig.engines.d1.requests.length, 1);
      assert.equal(paramsOf(rig.engines.d1.requests[0]!), undefined);
    },
  }),
  ...[500, 502, 503].map((status) =>
    pull({
      name: `prefill answers ${status}`,
      sees: "200 by other engines",
      there: TWO_PREFILLS,
      scripts: { p1: always(answers(status, "{}")) },
      async run(rig) {
        await pairAnswers(rig, "p2", "d1");
      },
    }),
  ),
  ...[400, 422, 429].map((status) =>
    pull({
      name: `prefill answers ${status}`,
      sees: `its own ${status}, as it came`,
      scripts: { p1: always(answers(status, ERROR)) },
      async run(rig) {
        const answer = await (await rig.ask(post(STREAMED))).answer();
        assert.deepEqual([answer.status, answer.body, prefillOf(answer)], [status, ERROR, "p1"]);
        assert.equal(rig.engines.d1.requests.length + rig.engines.d2.requests.length, 0);
      },
    }),
  ),
  pull({
    name: "prefill hangs",
    settings: IMPATIENT,
    sees: "200 by others after [router.disagg].prefill_timeout",
    there: TWO_PREFILLS,
    scripts: { p1: always(hang) },
    async run(rig) {
      await pairAnswers(rig, "p2", "d1");
      await until("the prefill leg is cut", () => rig.engines.p1.cut === 1);
    },
  }),
  pull({
    name: "all prefills hang",
    settings: IMPATIENT,
    sees: "an error that names the leg, or an answer by a decode engine",
    there: TWO_PREFILLS,
    scripts: { p1: always(hang), p2: always(hang) },
    async run(rig) {
      isError(await (await rig.ask(post(CHAT))).answer(), 504, "request_timeout", /prefill leg/);
      await until("both prefill legs are cut", () => rig.engines.p1.cut === 1 && rig.engines.p2.cut === 1);
    },
  }),
  pull({
    name: "prefill's process is gone",
    sees: "200 by others at once",
    there: TWO_PREFILLS,
    scripts: { p1: always(hang) },
    settings: { disagg: { splits: true, colocateBelowTokens: 0, prefillTimeoutMs: 60_000 } },
    async run(rig) {
      const client = await rig.ask(post(CHAT));
      await asked(rig, "p1");
      rig.set("p1", { state: "down", reason: "killed" });
      const answer = await client.answer();
      isWhole(answer, "d1");
      assert.equal(prefillOf(answer), "p2");
    },
  }),
  pull({
    name: "prefill's answer is cut in its midst",
    sees: "200 by others",
    there: TWO_PREFILLS,
    scripts: {
      p1: always((_request, socket) => {
        socket.write(reply(200, handedOver("never")).slice(0, -20), () => socket.resetAndDestroy());
      }),
    },
    async run(rig) {
      await pairAnswers(rig, "p2", "d1");
    },
  }),
  ...(
    [
      ["no parameters", WHOLE],
      ["null parameters", JSON.stringify({ ...JSON.parse(WHOLE), kv_transfer_params: null })],
      ["no engine id", handedOver("x", { remote_engine_id: null })],
      ["no block ids", handedOver("x", { remote_block_ids: null })],
      ["no host", handedOver("x", { remote_host: null })],
      ["no JSON", "nonsense"],
      ["nothing", ""],
    ] as const
  ).map(([name, body]) =>
    pull({
      name: `prefill answers with ${name}`,
      sees: "200: the decode engine computes the prompt itself",
      scripts: { p1: always(answers(200, body)) },
      async run(rig) {
        await pairAnswers(rig, "p1", /^d/);
        const [decode] = [...rig.engines.d1.requests, ...rig.engines.d2.requests];
        assert.equal(paramsOf(decode!), undefined);
      },
    }),
  ),
  pull({
    name: "client leaves during the prefill",
    sees: "nothing; the prefill leg is cut, no decode engine is asked",
    scripts: { p1: always(hang) },
    async run(rig) {
      const client = await rig.ask(post(CHAT));
      await asked(rig, "p1");
      client.socket.destroy();
      await until("the prefill leg is cut", () => rig.engines.p1.cut === 1);
      assert.equal(rig.engines.d1.requests.length + rig.engines.d2.requests.length, 0);
    },
  }),
  pull({
    name: "prefill drained",
    sees: "200 through the other one",
    there: TWO_PREFILLS,
    async run(rig) {
      await fetch(`${rig.admin}/v1/cgn/nodes/p1/drain`, { method: "POST" });
      await pairAnswers(rig, "p2", "d1");
    },
  }),
];

/** The decode leg fails: what the prefill handed over is never used again. */
export const PULL_DECODE_CASES: readonly PairCase[] = [
  pull({
    name: "decode refuses connections",
    sees: "200 by the other decode after a fresh prefill; the KV of the first one is let go",
    async run(rig) {
      await rig.engines.d1.kill();
      await rig.engines.d2.kill();
      await rig.engines.d1.revive();
      for (let n = 0; n < 4; n++) await pairAnswers(rig, "p1", "d1");
    },
  }),
  pull({
    name: "the only decode refuses connections",
    sees: "200 from the prefill engine alone",
    there: ONE_EACH,
    leaves: 1,
    async run(rig) {
      await rig.engines.d1.kill();
      await pairAnswers(rig, undefined, "p1");
    },
  }),
  pull({
    name: "decode resets before its answer, once",
    sees: "200 after a fresh prefill",
    there: ONE_EACH,
    scripts: { d1: once(reset) },
    leaves: 1,
    async run(rig) {
      await pairAnswers(rig, "p1", "d1");
      assert.equal(rig.engines.p1.requests.length, 2);
    },
  }),
  pull({
    name: "decode answers 503",
    sees: "200 by the other one after a fresh prefill",
    scripts: { d1: always(answers(503, "{}")) },
    // It was reached: whether it let go of the KV is its own business.
    leaves: 1,
    async run(rig) {
      rig.set("d2", { state: "draining", reason: "by the test" });
      const client = rig.ask(post(CHAT));
      await asked(rig, "d1");
      rig.set("d2", {});
      const answer = await (await client).answer();
      assert([200, 503].includes(answer.status), answer.head);
      assert(rig.kv.held <= 1);
      if (rig.kv.held === 0) rig.kv.hold("balance");
    },
  }),
  pull({
    name: "decode answers 400",
    sees: "its own 400",
    there: ONE_EACH,
    scripts: { d1: always(answers(400, ERROR)) },
    leaves: 1,
    async run(rig) {
      const answer = await (await rig.ask(post(CHAT))).answer();
      assert.deepEqual([answer.status, answer.body], [400, ERROR]);
    },
  }),
  pull({
    name: "decode dies in the midst of a stream",
    sees: "what came, then an error event",
    there: ONE_EACH,
    scripts: {
      d1: (rig) => (request, socket) => {
        rig().kv.pull(String(paramsOf(request)?.["remote_request_id"]));
        socket.write(STREAM_HEAD + chunk(event("The capital")), () => socket.resetAndDestroy());
      },
    },
    async run(rig) {
      isBroken(await (await rig.ask(post(STREAMED))).answer(), "The capital", /failed before its answer ended/);
    },
  }),
  pull({
    name: "decode hangs",
    sees: "an error within its limit",
    there: ONE_EACH,
    scripts: { d1: always(hang) },
    leaves: 1,
    settings: {
      answers: { firstTokenMs: 1_000, answerMs: 1_000, stallMs: 1_000, continueStreams: false },
    },
    async run(rig) {
      const answer = await (await rig.ask(post(STREAMED))).answer();
      assert([200, 502, 504].includes(answer.status), answer.head + answer.body);
      await until("the decode leg is cut", () => rig.engines.d1.cut >= 1);
      // A second way (the prefill alone) may have answered.
      if (rig.kv.held === 0) rig.kv.hold("balance");
    },
  }),
  pull({
    name: "client leaves during the decode",
    sees: "nothing; the decode leg is cut",
    there: ONE_EACH,
    scripts: {
      d1: (rig) => (request) => rig().kv.pull(String(paramsOf(request)?.["remote_request_id"])),
    },
    async run(rig) {
      const client = await rig.ask(post(STREAMED));
      await asked(rig, "d1");
      client.socket.destroy();
      await until("the decode leg is cut", () => rig.engines.d1.cut === 1);
    },
  }),
  pull({
    name: "decode restarted between the legs",
    sees: "200, computed by whoever is left",
    there: ["p1", "d1", "d2"],
    scripts: {
      p1: (rig, usual) => (request, socket) => {
        // While the prefill works: the process of each decode engine is another one afterwards.
        rig().set("d1", { epoch: 2 });
        rig().set("d2", { epoch: 2 });
        usual(request, socket);
      },
    },
    async run(rig) {
      await pairAnswers(rig, "p1", /^d/);
    },
  }),
];
