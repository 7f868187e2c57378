import { readFileSync } from "node:fs";
import { mkdtemp, rm, stat } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { startCapture } from "./capture.ts";
import { type RequestRow, readCapture } from "./capture-rows.ts";
import { REAL_CLOCK, startFakePublisher, until } from "./testing/fake-publisher.ts";
import { SMOLLM2, vllmRun } from "./testing/fixtures.ts";
import { verifyFolder } from "./verify-folder.ts";
import { createVocabularies } from "./vocabularies.ts";

const home = await mkdtemp(join(tmpdir(), "cgn-capture-"));
afterAll(() => rm(home, { recursive: true }));
const text = await createVocabularies({}).of({ models: [], tokenizer: { dir: SMOLLM2 } });
const dir = vllmRun("sha256_cbor-seed0-int");
const run = await readCapture(dir);
const chats = run.requests.filter((row): row is Extract<RequestRow, { kind: "chat" }> => row.kind === "chat");

/** Publishes what vLLM published with its n-th request, and reports what it reported. */
async function fakeEngine() {
  const events = await startFakePublisher({ topic: "kv" });
  let n = 0;
  const begins = run.requests.flatMap((row) => (row.kind === "begin" ? [row.t] : []));
  const server = createServer(async (req, res) => {
    for await (const _ of req) void _;
    const [from, to] = [begins[n] ?? 0, begins[n + 1] ?? Number.POSITIVE_INFINITY];
    for (const frame of run.frames.filter((f) => f.t > from && f.t < to))
      await events.publish(frame.payload as Uint8Array);
    const usage = { prompt_tokens: 1, prompt_tokens_details: { cached_tokens: chats[n]?.cachedTokens } };
    n++;
    // Every other answer is streamed.
    if (n % 2 === 0) res.end(JSON.stringify({ usage }));
    else res.end(`data: {"choices":[]}\n\ndata: ${JSON.stringify({ choices: [], usage })}\n\ndata: [DONE]\n\n`);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    events,
    close() {
      server.closeAllConnections();
      server.close();
      events.close();
    },
  };
}

/** Capture the first 13 requests (up to the reset) of the captured run, once more. */
async function captureAgain(out: string, withContent: boolean) {
  const engine = await fakeEngine();
  const { endpoint, replay } = engine.events;
  const capture = await startCapture({
    engine: engine.url,
    kind: "vllm",
    kv: { type: "events", endpoint, replay, topic: "kv", dpRank: 0 },
    out,
    listen: { host: "127.0.0.1", port: 0 },
    redactWith: withContent ? undefined : text,
    clock: REAL_CLOCK,
  });
  let published = 0;
  for (const [n, chat] of chats.slice(0, 13).entries()) {
    const reply = await fetch(`http://127.0.0.1:${capture.port}/v1/chat/completions`, {
      method: "POST",
      body: JSON.stringify(chat.body),
    });
    expect(await reply.text()).toContain("cached_tokens");
    published = run.frames.filter(
      (f) => f.t < (run.requests.find((r) => r.kind === "begin" && r.n === n + 1)?.t ?? 0),
    ).length;
    await until(() => capture.counts().frames === published);
  }
  expect(capture.counts()).toEqual({ frames: published, requests: 13, reported: 13 });
  await capture.close();
  engine.close();
}

const verify = (from: string, tokenizer?: string) =>
  verifyFolder({
    dir: from,
    agentNotices: false,
    env: {},
    capBytes: 2 ** 26,
    seed: 1,
    ...(tokenizer === undefined ? {} : { tokenizer }),
  });

describe("startCapture", () => {
  it("startCapture() with content records what verifyFolder() verifies", async () => {
    const out = join(home, "content");
    await captureAgain(out, true);
    expect(await verify(out, SMOLLM2)).toEqual({
      requests: 13,
      exact: 13,
      explained: 0,
      missed: [],
      uncountedBlocks: 0,
    });
    expect((await stat(join(out, "requests.jsonl"))).mode & 0o777).toBe(0o600);
    await expect(verify(out)).rejects.toThrow(/no tokenizer is named/);
    await expect(captureAgain(out, true)).rejects.toThrow(/holds a capture already/);
  });

  it("startCapture() without content keeps no prompt and no token id, and still verifies", async () => {
    const out = join(home, "hashed");
    await captureAgain(out, false);
    expect(await verify(out)).toEqual({ requests: 13, exact: 13, explained: 0, missed: [], uncountedBlocks: 0 });
    const kept = readFileSync(join(out, "requests.jsonl"), "utf8") + readFileSync(join(out, "frames.jsonl"), "utf8");
    for (const word of ["capital", "France", "tenant-a", "payload_b64", "messages"]) expect(kept).not.toContain(word);
    const ids = (await readCapture(out)).frames
      .flatMap((f) => f.batch?.events ?? [])
      .flatMap((e) => (e.type === "stored" ? [...e.tokenIds] : []));
    // One hash a block of 32 tokens, nothing else.
    expect(ids.every((id, i) => (i % 32 === 0 ? id > 65_536 : id === 0))).toBe(true);
  });
});
