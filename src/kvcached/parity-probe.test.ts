import { describe, expect, it } from "vitest";
import { nodeId, workerId } from "../core/ids.ts";
import type { WorkerInfo } from "../core/worker.ts";
import { createParityProbe } from "./parity-probe.ts";
import { createVocabularies, type ModelText } from "./vocabularies.ts";

const text = await createVocabularies({}).of({ models: [], tokenizer: { bytes: true } });

const WORKER: WorkerInfo = {
  id: workerId("n/0"),
  node: nodeId("n"),
  kind: "vllm",
  traits: { tokenizesChats: true },
  url: "http://engine",
  models: ["m"],
  upstreamModel: "upstream",
  role: "both",
  kv: { type: "history", entries: 1 },
  tokenizer: { bytes: true },
  state: "ready",
  reason: "",
  epoch: 1,
};

/** An engine whose tokens are its own rendering's bytes, after `change`. */
function engine(change: (bytes: Uint8Array, body: Record<string, unknown>) => Uint8Array | undefined): typeof fetch {
  return async (url, init) => {
    expect(String(url)).toBe("http://engine/tokenize");
    const body = JSON.parse(String(init?.body)) as Record<string, unknown>;
    expect(body["model"]).toBe("upstream");
    const rendered = text.renderer?.render(body);
    const bytes = rendered !== undefined && "bytes" in rendered ? change(rendered.bytes, body) : undefined;
    return bytes === undefined
      ? new Response("no", { status: 400 })
      : Response.json({ tokens: [...bytes], count: bytes.length });
  };
}

const probe = (ask: typeof fetch, worker = WORKER, model: ModelText = text) => createParityProbe(ask)(worker, model);

describe("createParityProbe", () => {
  it("createParityProbe() finds rendered prompts equal to the engine's", async () => {
    expect(await probe(engine((bytes) => bytes))).toEqual({ text: "equal", badly: false });
  });

  it("createParityProbe() says which chat differs and where, and does not give up on the model for one", async () => {
    const finding = await probe(engine((bytes, body) => (body["tools"] === undefined ? bytes : bytes.subarray(1))));
    expect(finding.badly).toBe(false);
    expect(finding.text).toMatch(/^2 of \d+ chats differ, first "tools" at byte 0: ours "<\|im_start\|>/);
  });

  it("createParityProbe() gives up when most chats differ", async () => {
    expect((await probe(engine((bytes) => bytes.subarray(1)))).badly).toBe(true);
  });

  it("createParityProbe() does not count what the engine refuses", async () => {
    const finding = await probe(engine((bytes, body) => (body["tools"] === undefined ? bytes : undefined)));
    expect(finding.text).toBe("equal");
  });

  it("createParityProbe() sends the key that the engine was started with, and says what a 401 without one means", async () => {
    // Broke: an engine with an API key answered 401, and nothing said why the probe knew nothing.
    const locked: typeof fetch = (url, init) =>
      new Headers(init?.headers).get("authorization") === "Bearer k1"
        ? engine((bytes) => bytes)(url, init)
        : Promise.resolve(new Response("no", { status: 401 }));
    expect((await createParityProbe(locked, () => "k1")(WORKER, text)).text).toBe("equal");
    expect((await probe(locked)).text).toContain(
      "its /tokenize answers 401: only a cgn that started it knows its API key",
    );
    expect((await createParityProbe(locked, () => "k2")(WORKER, text)).text).toContain("not the one that it wants");
  });

  it("createParityProbe() says why it knows nothing", async () => {
    expect((await probe(engine(() => undefined))).text).toBe("unknown: its /tokenize answers 400");
    const dead: typeof fetch = () => Promise.reject(new Error("refused"));
    expect((await probe(dead)).text).toBe("unknown: its /tokenize fails: refused");
    expect((await probe(dead, { ...WORKER, traits: {} })).text).toContain("does not tokenise");
    expect((await probe(dead, { ...WORKER, state: "starting" })).text).toContain("starting");
    expect((await probe(dead, WORKER, { ...text, renderer: undefined })).text).toContain("no chat template");
  });
});
