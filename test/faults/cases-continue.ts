import assert from "node:assert/strict";
import { events, isBroken, nodeOf, textOf } from "./expect.ts";
import { CHAT, post, STREAMED } from "./raw-client.ts";
import { chunk, DONE, event, finished, LAST_CHUNK, reply, type Script, STREAM_HEAD } from "./raw-engine.ts";
import { type FaultCase, LIMITS, LONG, type Rig, until } from "./rig.ts";

const rig = { settings: { answers: { ...LONG, continueStreams: true } } };
const WITH_USAGE = STREAMED.replace(
  '"stream":true',
  '"stream":true,"max_tokens":9,"stream_options":{"include_usage":true}',
);
const ROLE =
  'data: {"id":"y","object":"chat.completion.chunk","created":2,"model":"other","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n';
const usage = (prompt: number, completion: number): string =>
  `data: {"id":"y","choices":[],"usage":{"prompt_tokens":${prompt},"completion_tokens":${completion},"total_tokens":${prompt + completion}}}\n\n`;

const dies =
  (...contents: string[]): Script =>
  (_request, socket) => {
    socket.write(STREAM_HEAD + chunk(contents.map((content) => event(content)).join("")), () =>
      socket.resetAndDestroy(),
    );
  };
/** Streams what is given, after a role of its own. */
const goesOn =
  (...contents: string[]): Script =>
  (_request, socket) => {
    const rest = contents.map((content) => event(content).replace('"id":"x"', '"id":"y"')).join("");
    socket.write(STREAM_HEAD + chunk(`${ROLE}${rest}${event("", "stop")}${usage(23, 4)}${DONE}`) + LAST_CHUNK);
    finished(socket);
  };
const bodyOf = (rig: Rig, engine: "a" | "b" | "c"): Record<string, unknown> =>
  JSON.parse(rig[engine].requests.at(-1)!.body);

/** The client sees one stream: one id, one end, no error. */
async function isOne(rig: Rig, request: string, text: string): Promise<unknown[]> {
  const answer = await (await rig.ask(post(request))).answer();
  assert.deepEqual([answer.status, answer.whole, nodeOf(answer)], [200, true, "a"], answer.body);
  assert.equal(textOf(answer.body), text);
  const all = events(answer.body) as { id: string; error?: unknown }[];
  assert.deepEqual([...new Set(all.map(({ id }) => id))], ["x"]);
  assert(answer.body.endsWith(DONE) && !answer.body.includes('"error"'), answer.body);
  return all;
}

const notContinued =
  (request: string, text = "The capital") =>
  async (rig: Rig): Promise<void> => {
    isBroken(await (await rig.ask(post(request))).answer(), text, /reset|ECONN|closed/i);
    assert.equal(rig.b.requests.length, 0);
  };

interface Decisions {
  readonly decisions: readonly { readonly attempts: readonly { failed?: string; continues?: number }[] }[];
}

/** `continue_streams`: a stream whose engine dies goes on at another one. */
export const CONTINUE_CASES: readonly FaultCase[] = [
  {
    name: "reset amid a chat's text",
    sees: "one whole stream, under one id",
    rig,
    a: dies("The capital", " is"),
    b: goesOn(" Paris", "."),
    async run(rig) {
      await isOne(rig, STREAMED, "The capital is Paris.");
      const { messages, ...members } = bodyOf(rig, "b");
      assert.deepEqual((messages as unknown[]).at(-1), { role: "assistant", content: "The capital is" });
      assert.deepEqual(members, {
        model: "m",
        stream: true,
        continue_final_message: true,
        add_generation_prompt: false,
      });
      // And `cgn explain` has both.
      const told = (await (await fetch(`${rig.admin}/v1/cgn/decisions`)).json()) as Decisions;
      const [first, second] = told.decisions[0]!.attempts;
      assert.match(first!.failed ?? "", /^reset|closed/);
      assert.deepEqual([first!.continues, second!.continues, second!.failed], [undefined, 2, undefined]);
    },
  },
  {
    name: "reset, with usage and a limit of tokens",
    sees: "one stream; usage of the whole; the second engine gets what is left of the limit",
    rig,
    a: dies("The capital", " is", " "),
    b: goesOn(" Paris", "."),
    async run(rig) {
      const all = await isOne(rig, WITH_USAGE, "The capital is Paris.");
      assert.equal(bodyOf(rig, "b")["max_tokens"], 6);
      // The space that a model makes anew is not sent twice.
      assert.deepEqual((bodyOf(rig, "b")["messages"] as { content: string }[]).at(-1)?.content, "The capital is");
      const last = all.at(-1) as { usage: unknown };
      assert.deepEqual(last.usage, { prompt_tokens: 20, completion_tokens: 7, total_tokens: 27 });
    },
  },
  {
    name: "stall amid the text",
    sees: "one whole stream",
    rig: { settings: { answers: { ...LIMITS, continueStreams: true } } },
    a: (_request, socket) => void socket.write(STREAM_HEAD + chunk(event("The capital"))),
    b: goesOn(" is Paris."),
    async run(rig) {
      await isOne(rig, STREAMED, "The capital is Paris.");
    },
  },
  {
    name: "the engine tells its own death in the stream",
    sees: "one whole stream",
    rig,
    a: (_request, socket) => {
      const error = 'data: {"error":{"message":"EngineCore died","type":"InternalServerError","code":500}}\n\n';
      socket.write(STREAM_HEAD + chunk(event("The capital") + error + DONE) + LAST_CHUNK);
      finished(socket);
    },
    b: goesOn(" is Paris."),
    async run(rig) {
      await isOne(rig, STREAMED, "The capital is Paris.");
    },
  },
  {
    name: "engine goes down, as the directory says",
    sees: "one whole stream",
    rig,
    a: (_request, socket) => void socket.write(STREAM_HEAD + chunk(event("The capital"))),
    b: goesOn(" is Paris."),
    async run(rig) {
      const client = await rig.ask(post(STREAMED));
      await client.saw("The capital");
      rig.set("a", { state: "down", reason: "killed" });
      assert.equal(textOf((await client.answer()).body), "The capital is Paris.");
    },
  },
  {
    name: "the second engine dies too",
    sees: "one whole stream, of three engines",
    rig: { ...rig, three: true },
    a: dies("The"),
    b: dies(" capital"),
    c: dies(" capital"),
    async run(rig) {
      // Whoever is asked third ends it.
      const third: Script = (request, socket) => goesOn(" is Paris.")(request, socket);
      const second = dies(" capital");
      for (const engine of [rig.b, rig.c]) {
        engine.script = (request, socket) => (request.body.includes("The capital") ? third : second)(request, socket);
      }
      await isOne(rig, STREAMED, "The capital is Paris.");
    },
  },
  {
    name: "all die",
    sees: "all text that came, an error event, the end",
    rig: { ...rig, three: true },
    a: dies("The"),
    b: dies(" capital"),
    c: dies(" capital"),
    async run(rig) {
      isBroken(await (await rig.ask(post(STREAMED))).answer(), "The capital capital", /ECONN|reset|closed/i);
    },
  },
  {
    name: "nobody else is there",
    sees: "the text, an error event, the end",
    rig,
    a: dies("The capital"),
    async run(rig) {
      rig.router.core.fleet.mark("b", "cordoned");
      isBroken(await (await rig.ask(post(STREAMED))).answer(), "The capital", /ECONN|reset|closed/i);
    },
  },
  {
    name: "the other engine refuses to go on",
    sees: "the text, an error event, the end",
    rig,
    a: dies("The capital"),
    b: (_request, socket) => {
      socket.write(reply(400, '{"error":{"message":"continue_final_message is unknown"}}'));
      finished(socket);
    },
    async run(rig) {
      isBroken(await (await rig.ask(post(STREAMED))).answer(), "The capital", /ECONN|reset|closed/i);
      assert.equal(rig.b.requests.length, 1);
    },
  },
  {
    name: "a text completion",
    sees: "one whole stream; the second engine gets prompt and text",
    rig,
    a: (_request, socket) => {
      socket.write(
        STREAM_HEAD + chunk('data: {"id":"x","choices":[{"index":0,"text":" is","finish_reason":null}]}\n\n'),
        () => socket.resetAndDestroy(),
      );
    },
    b: (_request, socket) => {
      socket.write(
        STREAM_HEAD +
          chunk(`data: {"id":"y","choices":[{"index":0,"text":" Paris.","finish_reason":"stop"}]}\n\n${DONE}`) +
          LAST_CHUNK,
      );
      finished(socket);
    },
    async run(rig) {
      const request = '{"model":"m","prompt":"The capital","stream":true}';
      const answer = await (await rig.ask(post(request, "", "/v1/completions"))).answer();
      assert.deepEqual(events(answer.body), [
        { id: "x", choices: [{ index: 0, text: " is", finish_reason: null }] },
        { id: "x", choices: [{ index: 0, text: " Paris.", finish_reason: "stop" }] },
      ]);
      assert.equal(bodyOf(rig, "b")["prompt"], "The capital is");
    },
  },
  {
    name: "a request with tools",
    sees: "the text, an error event: it is not continued",
    rig,
    a: dies("The capital"),
    run: notContinued(STREAMED.replace('"stream":true', '"stream":true,"tools":[{"type":"function"}]')),
  },
  {
    name: "two answers at once (n = 2)",
    sees: "the text, an error event: it is not continued",
    rig,
    a: dies("The capital"),
    run: notContinued(STREAMED.replace('"stream":true', '"stream":true,"n":2')),
  },
  {
    name: "reasoning in the stream",
    sees: "what came, an error event: it is not continued",
    rig,
    a: (_request, socket) => {
      const thought = event("").replace('"content":""', '"reasoning_content":"hm"');
      socket.write(STREAM_HEAD + chunk(thought), () => socket.resetAndDestroy());
    },
    run: notContinued(STREAMED, ""),
  },
  {
    name: "not switched on",
    sees: "the text, an error event: it is not continued",
    a: dies("The capital"),
    run: notContinued(STREAMED),
  },
  {
    name: "cut after the finish",
    sees: "the whole stream and [DONE]",
    rig,
    a: (_request, socket) => {
      socket.write(STREAM_HEAD + chunk(event("The capital is Paris.") + event("", "stop")), () =>
        socket.resetAndDestroy(),
      );
    },
    async run(rig) {
      await isOne(rig, STREAMED, "The capital is Paris.");
      assert.equal(rig.b.requests.length, 0);
    },
  },
  {
    name: "client leaves after the stream went on",
    sees: "nothing more; the second engine is cut",
    rig,
    a: dies("The capital"),
    b: (_request, socket) => void socket.write(STREAM_HEAD + chunk(event(" is"))),
    async run(rig) {
      const client = await rig.ask(post(STREAMED));
      await client.saw('" is"');
      client.socket.destroy();
      await until("the engine is cut", () => rig.b.cut === 1);
    },
  },
  {
    name: "a whole answer is asked for",
    sees: "200 from the other engine: nothing had to be continued",
    rig,
    a: (_request, socket) => void socket.resetAndDestroy(),
    async run(rig) {
      const answer = await (await rig.ask(post(CHAT))).answer();
      assert.deepEqual([answer.status, nodeOf(answer)], [200, "b"]);
    },
  },
];
