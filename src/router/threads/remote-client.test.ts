import { describe, expect, it } from "vitest";
import { CgnError } from "../../core/errors.ts";
import { noFacts } from "../answer.ts";
import type { LegOrder } from "../away.ts";
import { testWorker } from "../testing/test-router.ts";
import { Outbox } from "./outbox.ts";
import type { SentHead, SentRead, ToDoor } from "./protocol.ts";
import { RemoteClient } from "./remote-client.ts";
import { sentError } from "./sent-error.ts";

const HEAD: SentHead = { method: "POST", url: "/v1/chat/completions", headers: {}, rawHeaders: [], startedMs: 0 };
const READ: SentRead = {
  ...{ kind: "chat", model: "m", stream: true, root: "", readsCache: true, unmatched: undefined },
  ...{ canFold: true, lora: undefined, prompt: undefined },
};

/** A port that keeps what is posted, message by message. */
function port(): { readonly out: Outbox<ToDoor>; readonly posts: ToDoor[][]; readonly sent: () => ToDoor[] } {
  const posts: ToDoor[][] = [];
  const out = new Outbox<ToDoor>({ postMessage: (messages) => void posts.push(messages as ToDoor[]) });
  return {
    out,
    posts,
    sent() {
      out.flush();
      return posts.flat();
    },
  };
}

const order = (): LegOrder => ({
  ...{ worker: testWorker("a", "http://127.0.0.1:1"), model: "m", target: undefined, fresh: false },
  ...{ authenticated: false, engineKey: undefined, traceparent: undefined, opened: false, headers: {} },
  ...{ wantText: false, seesFirst: true, facts: noFacts(), limits: { firstTokenMs: 0, answerMs: 0, stallMs: 0 } },
  onHead() {},
  onFirst() {},
});

describe("Outbox", () => {
  it("sends what one turn says as one message, with the memory that goes along", () => {
    const posts: [unknown, ArrayBuffer[]][] = [];
    const out = new Outbox<string>({ postMessage: (...all) => void posts.push(all) });
    const memory = new ArrayBuffer(8);
    out.post("one");
    out.post("two", memory);
    out.flush();
    out.flush();
    expect(posts).toEqual([[["one", "two"], [memory]]]);
    out.close();
    out.post("three");
    out.flush();
    expect(posts).toHaveLength(1);
  });
});

describe("RemoteClient", () => {
  it("read() has what came with the request at once, and asks where nothing came", async () => {
    const { out, sent } = port();
    expect(new RemoteClient(1, HEAD, { ok: READ }, out).read()).toMatchObject({ model: "m", stream: true });
    expect(sent()).toEqual([]);
    const client = new RemoteClient(2, HEAD, undefined, out);
    const read = client.read();
    expect(sent()).toEqual([{ t: "read", id: 2 }]);
    client.take({ t: "read", id: 2, read: { ok: { ...READ, model: "other" } } });
    expect(await read).toMatchObject({ model: "other" });
  });

  it("read() throws what the thread met, with its code", () => {
    const error = sentError(new CgnError("REQUEST_INVALID", "Cannot read the request", { param: "model" }));
    const client = new RemoteClient(1, HEAD, { error }, port().out);
    expect(() => client.read()).toThrow(
      expect.objectContaining({ code: "REQUEST_INVALID", details: { param: "model" } }),
    );
  });

  it("prompt() is the one that came along only under the same root", async () => {
    const { out, sent } = port();
    const prompt = { bytes: new Uint8Array([1]), reason: undefined, length: 1, exactTokens: undefined, prefix: 7 };
    const along = { model: "m", root: "", prompt, textBytes: 0 };
    const client = new RemoteClient(1, HEAD, { ok: { ...READ, prompt: along } }, out);
    const request = await client.read();
    expect(client.prompt(request)).toBe(prompt);
    const other = client.prompt({ ...request, root: "salted" });
    expect(sent()).toEqual([{ t: "prompt", id: 1, model: "m", root: "salted" }]);
    client.take({ t: "prompt", id: 1, prompt: { ...along, root: "salted", prompt: { ...prompt, prefix: 8 } } });
    expect(await other).toMatchObject({ prefix: 8 });
  });

  it("questions end with CALLER_LEFT when the client leaves, and later ones too", async () => {
    const { out } = port();
    const client = new RemoteClient(1, HEAD, { ok: READ }, out);
    const request = await client.read();
    let closed = 0;
    client.res.on("close", () => closed++);
    const prompt = client.prompt(request);
    client.take({ t: "left", id: 1 });
    await expect(prompt).rejects.toMatchObject({ code: "CALLER_LEFT" });
    await expect(client.bring()).rejects.toMatchObject({ code: "CALLER_LEFT" });
    expect(closed).toBe(1);
  });

  it("a leg ends as the thread tells, with its facts, and as left when the thread is gone", async () => {
    const { out, sent } = port();
    const client = new RemoteClient(1, HEAD, { ok: READ }, out);
    const asked = order();
    const first = client.leg(asked).run();
    expect(sent().at(-1)).toMatchObject({ t: "leg", id: 1, leg: 1, order: { worker: "a" } });
    const failure = { kind: "refused", phase: "connect", message: "nobody" } as const;
    const answer = { headersSent: false, writableEnded: false, statusCode: 200 };
    const facts = { ...noFacts(), promptTokens: 9 };
    client.take({ t: "ended", id: 1, leg: 1, end: { ok: { end: { type: "retry", failure }, facts, answer } } });
    expect(await first).toEqual({ type: "retry", failure });
    expect(asked.facts.promptTokens).toBe(9);
    const second = client.leg(order()).run();
    // What was said of the first try is of no matter to the second.
    client.take({ t: "ended", id: 1, leg: 1, end: { ok: { end: { type: "left" }, facts, answer } } });
    client.gone();
    expect(await second).toEqual({ type: "left" });
    expect(await client.leg(order()).run()).toEqual({ type: "left" });
  });

  it("an answer of the main thread's own goes with its head, and waits for slow clients", () => {
    const { out, sent } = port();
    const { res } = new RemoteClient(1, HEAD, { ok: READ }, out);
    res.setHeader("vary", "Origin");
    res.writeHead(200, { "content-type": "text/event-stream" });
    expect(res.write("a")).toBe(true);
    expect(res.write(new Uint8Array(300_000))).toBe(false);
    res.end();
    res.end("again");
    const head = { status: 200, headers: { "content-type": "text/event-stream" }, set: { vary: "Origin" } };
    expect(sent()).toMatchObject([
      { t: "answer", id: 1, part: { chunk: "a", head } },
      { t: "answer", id: 1, part: { asksDrain: true } },
      { t: "answer", id: 1, part: { end: true } },
    ]);
  });
});
