import { describe, expect, it } from "vitest";
import type { ClientResponse } from "../http/client-response.ts";
import type { UpstreamHandler, Upstreams } from "../http/upstream.ts";
import type { Exchange } from "./accept.ts";
import { noFacts } from "./answer.ts";
import { ContinuedStream } from "./continuation.ts";
import { conversionOf } from "./convert/conversions.ts";
import { Relay, type RelayPlan } from "./relay.ts";
import type { LegEnd } from "./sinks.ts";
import { handClock } from "./testing/hand-clock.ts";

/** A client's answer that is kept as text. */
function client(): ClientResponse & { text: string } {
  const res = {
    text: "",
    headersSent: false,
    writableEnded: false,
    writableFinished: false,
    destroyed: false,
    statusCode: 0,
    setHeader: () => {},
    writeHead(status: number) {
      res.headersSent = true;
      res.statusCode = status;
      return res;
    },
    flushHeaders: () => {},
    write(chunk: string | Uint8Array) {
      res.text += Buffer.from(chunk as Uint8Array).toString();
      return true;
    },
    end(chunk?: string | Uint8Array) {
      if (chunk !== undefined) res.write(chunk);
      res.writableEnded = true;
    },
    destroy: () => {},
    on: () => {},
    once: () => {},
  };
  return res;
}

interface Rig {
  readonly clock: ReturnType<typeof handClock>;
  readonly res: ReturnType<typeof client>;
  readonly engine: UpstreamHandler;
  /** Events as an engine sends them, each on its own. */
  say(...events: string[]): void;
  end: LegEnd | undefined;
  aborted: boolean;
}

/** A relay whose engine has begun a stream of events. */
function relaying(plan: Partial<RelayPlan> = {}, shape: Exchange["shape"] = "openai"): Rig {
  const clock = handClock();
  const res = client();
  let engine: UpstreamHandler | undefined;
  const upstreams = {
    send(_base: string, _request: unknown, handler: UpstreamHandler) {
      engine = handler;
      return { abort: () => void (rig.aborted = true), resume: () => {} };
    },
  } as unknown as Upstreams;
  const path = shape === "anthropic" ? "/v1/messages" : "/v1/chat/completions";
  const exchange = { res, shape, path, method: "POST", left: false, opened: false } as unknown as Exchange;
  const relay = new Relay({
    exchange,
    facts: noFacts(),
    headers: {},
    mustFinish: true,
    wantText: false,
    dropUsage: false,
    streams: true,
    fold: false,
    convert: undefined,
    mendEvents: false,
    clock,
    limits: { firstTokenMs: 0, answerMs: 0, stallMs: 300_000 },
    onFirst: () => {},
    ...plan,
  });
  const ran = relay.run(upstreams, "http://e", { method: "POST", path, headers: [], body: undefined });
  const rig: Rig = {
    clock,
    res,
    engine: engine!,
    say: (...events) => {
      for (const event of events) engine!.onData(Buffer.from(`${event}\n\n`));
    },
    end: undefined,
    aborted: false,
  };
  void ran.then((end) => void (rig.end = end));
  rig.engine.onHead(200, { "content-type": "text/event-stream", "transfer-encoding": "chunked" });
  return rig;
}

const word = (content: string, more: object = {}): string =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content }, finish_reason: null }], ...more })}`;
const finish = (more: object = {}): string =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }], ...more })}`;
const usage = (more: object = {}): string =>
  `data: ${JSON.stringify({ choices: [], usage: { prompt_tokens: 5, completion_tokens: 1 }, ...more })}`;
const DONE = "data: [DONE]";
const whole = (...events: string[]): string => events.map((event) => `${event}\n\n`).join("");

describe("a stream that is over while its connection stays open", () => {
  const endings: readonly (readonly [string, Exchange["shape"], readonly string[]])[] = [
    ["[DONE]", "openai", [word("a"), finish(), DONE]],
    ["[DONE] in one piece with the rest", "openai", [[word("a"), finish(), DONE].join("\n\n")]],
    ["an error", "openai", [word("a"), 'data: {"error":{"message":"broke","code":500}}']],
    [
      "message_stop",
      "anthropic",
      ['event: x\ndata: {"type":"x"}', 'event: message_stop\ndata: {"type":"message_stop"}'],
    ],
    ["an error of the Messages API", "anthropic", ['event: error\ndata: {"type":"error","error":{"message":"m"}}']],
    ["response.completed", "openai", ['event: response.completed\ndata: {"response":{"usage":{"input_tokens":1}}}']],
    ["response.failed", "openai", ['event: response.failed\ndata: {"response":{"usage":null}}']],
  ];
  for (const [name, shape, events] of endings) {
    it(`ends a moment after ${name}, as a whole one`, async () => {
      const rig = relaying({}, shape);
      rig.say(...events);
      await rig.clock.pass(500);
      expect(rig.end).toBeUndefined();
      await rig.clock.pass(600);
      expect(rig.end).toEqual({ type: "complete", status: 200 });
      expect(rig.res).toMatchObject({ text: whole(...events), writableEnded: true });
      expect(rig.aborted).toBe(true);
    });
  }

  it("is whole where the connection is cut after [DONE]", async () => {
    const rig = relaying();
    rig.say(word("a"), finish(), DONE);
    rig.engine.onFailure({ kind: "reset", phase: "body", message: "cut" });
    await rig.clock.pass(0);
    expect(rig.end?.type).toBe("complete");
    expect(rig.res.text).toBe(whole(word("a"), finish(), DONE));
  });

  it("gets nothing behind [DONE]", async () => {
    const rig = relaying();
    rig.say(word("a"), finish(), [DONE, word("more")].join("\n\n"), word("more"), "data: ha");
    rig.engine.onEnd();
    await rig.clock.pass(0);
    expect(rig.res.text).toBe(whole(word("a"), finish(), DONE));
  });

  it("goes on for as long as events come after an error", async () => {
    const rig = relaying();
    rig.say(word("a"), 'data: {"error":{"message":"broke"}}');
    for (let i = 0; i < 5; i++) {
      await rig.clock.pass(700);
      rig.say(word("b"));
    }
    expect(rig.end).toBeUndefined();
    rig.say(DONE);
    rig.engine.onEnd();
    await rig.clock.pass(0);
    expect(rig.end?.type).toBe("complete");
  });

  it("is folded, or converted, all the same", async () => {
    const folded = relaying({ fold: true });
    folded.say(word("a"), finish(), DONE);
    await folded.clock.pass(1_100);
    expect(folded.end?.type).toBe("complete");
    expect(JSON.parse(folded.res.text).choices[0].message.content).toBe("a");

    const by = conversionOf("/v1/messages")!;
    const asked = { id: "1", model: "m", json: {} };
    const converted = relaying({ convert: { by, asked } }, "anthropic");
    converted.say(word("a"), finish(), DONE);
    expect(converted.res.text).toContain("event: message_stop");
    await converted.clock.pass(1_100);
    expect(converted.end?.type).toBe("complete");
    expect(converted.res.text.match(/event: (message_stop|error)/g)).toEqual(["event: message_stop"]);
  });

  it("may go on elsewhere where the engine told its own death, whatever it said then", async () => {
    const rig = relaying({ stream: new ContinuedStream() });
    rig.say(word("a"), ['data: {"error":{"message":"dead","code":500}}', DONE].join("\n\n"));
    await rig.clock.pass(0);
    expect(rig.end?.type).toBe("cut");
    expect(rig.res).toMatchObject({ text: whole(word("a")), writableEnded: false });
  });

  it("is broken where the stream was not over", async () => {
    const rig = relaying();
    rig.say(word("a"), finish());
    await rig.clock.pass(300_100);
    expect(rig.end?.type).toBe("broken");
    expect(rig.res.text).toContain("stall_timeout");
  });
});

describe("usage that only the router asked for", () => {
  const more = { system_fingerprint: "vllm-1", timings: { cache_n: 4 } };

  it("is left out, and what came with it stands where it would stand without it", async () => {
    const facts = noFacts();
    const rig = relaying({ dropUsage: true, facts });
    rig.say(word("a"), finish());
    expect(rig.res.text).toBe(whole(word("a")));
    rig.say(usage(more), DONE);
    rig.engine.onEnd();
    await rig.clock.pass(0);
    expect(rig.res.text).toBe(whole(word("a"), finish(more), DONE));
    expect(facts).toMatchObject({ promptTokens: 5, cachedTokens: 4, completionTokens: 1 });
  });

  it("holds a finish back no longer than to the next event, whatever that is", () => {
    for (const next of [word("b"), ": a comment", DONE]) {
      const rig = relaying({ dropUsage: true });
      rig.say(word("a"), finish(), next);
      expect(rig.res.text).toBe(whole(word("a"), finish(), next));
    }
    const cut = relaying({ dropUsage: true });
    cut.say(word("a"), finish());
    cut.engine.onFailure({ kind: "reset", phase: "body", message: "cut" });
    expect(cut.res.text.startsWith(whole(word("a"), finish()))).toBe(true);
    const ended = relaying({ dropUsage: true });
    ended.say(word("a"), finish());
    ended.engine.onEnd();
    expect(ended.res.text).toBe(whole(word("a"), finish()));
  });

  it("changes nothing of several choices but the last chunk", () => {
    const rig = relaying({ dropUsage: true });
    const second = finish().replace('"index":0', '"index":1');
    rig.say(word("a"), finish(), word("b"), second, usage({ system_fingerprint: "f" }), DONE);
    const laid = `${second.slice(0, -1)},"system_fingerprint":"f"}`;
    expect(rig.res.text).toBe(whole(word("a"), finish(), word("b"), laid, DONE));
  });
});
