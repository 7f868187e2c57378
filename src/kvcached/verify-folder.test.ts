import { copyFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { isCgnError } from "../core/errors.ts";
import { workerId } from "../core/ids.ts";
import { findEngine } from "../engines/registry.ts";
import { applyEvents } from "../kvindex/apply-events.ts";
import { createPrefixIndex } from "../kvindex/run-index.ts";
import { readCapture } from "./capture-rows.ts";
import { readReplyFrames } from "./event-frames.ts";
import { initialSource, type SourceInput } from "./source-state.ts";
import { stepSource } from "./source-step.ts";
import { readJson, SMOLLM2, sglangRun, VLLM_RUNS, vllmRun } from "./testing/fixtures.ts";
import { verifyFolder, verifyFolderStreams } from "./verify-folder.ts";
import { createVocabularies } from "./vocabularies.ts";

const MIB = 2 ** 20;
const home = await mkdtemp(join(tmpdir(), "cgn-verify-"));
afterAll(() => rm(home, { recursive: true }));
const verify = (dir: string, agentNotices: boolean) =>
  verifyFolder({ dir, tokenizer: SMOLLM2, agentNotices, env: {}, capBytes: 64 * MIB, seed: 1 });

describe("verifyFolderStreams", () => {
  const streams = (dir: string) =>
    verifyFolderStreams({ dir, tokenizer: SMOLLM2, agentNotices: false, env: {}, capBytes: 64 * MIB, seed: 1 });

  it.each([
    ["nixl_pd", 2],
    ["pdconnector_pd", 2],
    ["pdconnector_both_sides", 2],
    ["multi_nixl_lmcachemp_pd", 2],
    ["offload_lmcmp", 1],
    ["offload_lmcv1", 1],
  ] as const)("verifyFolderStreams() takes in all frames files of %s without a complaint", async (run, files) => {
    // Broke: folders with several engines' frames, or without requests, could not be verified at all.
    const reports = (await streams(vllmRun(run))) ?? [];
    expect(reports).toHaveLength(files);
    for (const { frames, decoded, stored, complaints } of reports) {
      expect(complaints).toEqual([]);
      expect(decoded).toBe(frames);
      expect(stored).toBeGreaterThan(0);
    }
  });

  it("verifyFolderStreams() complains of holes, rubbish and an empty file, and leaves whole captures alone", async () => {
    const dir = await mkdtemp(join(home, "streams-"));
    const from = join(vllmRun("nixl_pd"), "frames_prefill.jsonl");
    const [first, ...rest] = (await readFile(from, "utf8")).trim().split("\n");
    const bad = '{"t":1,"seq":9,"payload_b64":"AAAA"}';
    await writeFile(join(dir, "frames-a.jsonl"), [first, ...rest.slice(1), bad].join("\n"));
    await writeFile(join(dir, "frames-b.jsonl"), "");
    const [a, b] = (await streams(dir)) ?? [];
    expect(a?.complaints.join()).toMatch(/messages not understood.*holes in the sequence/);
    expect(b?.complaints).toEqual(["1 file without messages"]);
    expect(await streams(vllmRun("sha256-noseed-int"))).toBeUndefined();
  });
});

describe("verifyFolder", () => {
  it("verifyFolder() explains nothing by a restart when there are no events at all", async () => {
    // Broke: with an emptied frames.jsonl every hit after a restart counted as explained by that restart.
    const dir = await mkdtemp(join(home, "empty-"));
    await writeFile(join(dir, "frames.jsonl"), "");
    await copyFile(join(vllmRun("sha256-noseed-int"), "requests.jsonl"), join(dir, "requests.jsonl"));
    const report = await verify(dir, false);
    expect(report.explained).toBe(0);
    expect(report.exact).toBeLessThan(report.requests);
    expect(report.missed[0]?.reason).toMatch(/^not explained by the capture \(source: live.*[^ ]\)$/);
  });

  for (const run of VLLM_RUNS) {
    it(`verifyFolder() predicts vLLM's cached tokens, but where it had not yet said that its cache is empty (${run})`, async () => {
      const report = await verify(vllmRun(run), false);
      expect(report).toMatchObject({ requests: 16, exact: 14, explained: 2 });
      expect(report.missed.map((m) => [m.n, m.predicted, m.reported])).toEqual([
        [13, 96, 0],
        [14, 96, 0],
      ]);
      expect(report.missed[0]?.reason).toContain("reset");
      expect(report.missed[1]?.reason).toContain("restarted");
    });

    it(`verifyFolder() predicts all of them with what the agent knows (${run})`, async () => {
      const all = { requests: 16, exact: 16, explained: 0, missed: [], uncountedBlocks: 0 };
      expect(await verify(vllmRun(run), true)).toEqual(all);
    });
  }

  it("verifyFolder() predicts hot multi-turn chats in many scripts, and explains the rest", async () => {
    const report = await verify(vllmRun("chats-small-cache"), false);
    expect(report).toMatchObject({ requests: 220, exact: 219, explained: 1 });
    expect(report.missed.map((m) => m.cause)).toEqual(["in-flight"]);
    expect(report.uncountedBlocks).toBeGreaterThan(0);
  });

  it("verifyFolder() shows what bytes alone are worth", async () => {
    const options = { tokenizer: SMOLLM2, agentNotices: false, env: {}, capBytes: 64 * MIB, seed: 1 };
    const report = await verifyFolder({ ...options, dir: vllmRun("chats-small-cache"), bytesAlone: true });
    expect(report).toMatchObject({ requests: 220, exact: 214, explained: 6, uncountedBlocks: 0 });
    expect(report.missed.filter((m) => m.cause === "tokens")).toHaveLength(5);
  });

  for (const [run, requests] of [
    ["chats-hot", 120],
    ["chats-parallel", 160],
  ] as const) {
    it(`verifyFolder() predicts all of ${run}`, async () => {
      expect(await verify(vllmRun(run), false)).toMatchObject({ requests, exact: requests, missed: [] });
    });
  }

  it("verifyFolder() predicts SGLang's cached tokens, but where a prefix was still being computed", async () => {
    const report = await verify(sglangRun("chats-parallel"), false);
    expect(report).toMatchObject({ requests: 70, exact: 66, explained: 4 });
    expect(new Set(report.missed.map((m) => m.cause))).toEqual(new Set(["in-flight"]));
  });

  it("verifyFolder() keeps adapters and salts apart", async () => {
    const report = await verify(vllmRun("chats-roots"), false);
    expect(report).toMatchObject({ requests: 100, exact: 100, missed: [] });
  });

  it("verifyFolder() names file and line of what it cannot read", async () => {
    await writeFile(join(home, "frames.jsonl"), '{"t":1,"seq":0,"topic":"","payload_b64":""}\n\n{"t":1}\n');
    await writeFile(join(home, "requests.jsonl"), "");
    await expect(verify(home, false)).rejects.toThrow(/frames\.jsonl:3: seq is no count/);
    await expect(verify(join(home, "none"), false)).rejects.toSatisfy((e) => isCgnError(e, "CAPTURE_INVALID"));
    await writeFile(join(home, "frames.jsonl"), "");
    await expect(verify(home, false)).rejects.toThrow(/no request has reported cached tokens/);
  });
});

describe("a captured run through the source", () => {
  it("stepSource() gives the same index for replay before live and live before replay", async () => {
    const dir = vllmRun("sha256_cbor-seed0-int");
    const { frames, requests } = await readCapture(dir);
    const decode = findEngine("vllm").decodeEvents as NonNullable<ReturnType<typeof findEngine>["decodeEvents"]>;
    const text = await createVocabularies({}).of({ models: [], tokenizer: { dir: SMOLLM2 } });
    const live = frames
      .slice(0, 12)
      .map((f): SourceInput => ({ type: "live", seq: f.seq, batch: decode(f.payload as Uint8Array) }));
    const replies = readJson<{ replies: string[][] }>(join(dir, "replay_all.json")).replies.map(
      (reply): SourceInput => {
        const read = readReplyFrames(reply.map((frame) => Buffer.from(frame, "base64")));
        if (read.kind !== "message") return { type: "replay-end", request: 1 };
        return { type: "reply", request: 1, seq: read.seq, batch: decode(read.payload) };
      },
    );
    const prompts = requests.flatMap((row) => (row.kind === "chat" ? [text.renderer?.render(row.body ?? {})] : []));
    const held = (inputs: readonly SourceInput[]) => {
      const index = createPrefixIndex({ capBytes: 64 * MIB, seed: 1 });
      const slot = index.addWorker(workerId("w"));
      let state = initialSource(true, 0);
      for (const input of inputs) {
        const [next, ...effects] = stepSource(state, input, 0);
        state = next;
        for (const e of effects) {
          if (e.do === "clear") index.clearWorker(slot);
          if (e.do === "apply") applyEvents(index, slot, e.batch, (ids, n) => text.vocabulary.decodeBlocks(ids, n));
        }
      }
      expect(state).toMatchObject({ at: "live", next: 12 });
      return prompts.map((p) => (p !== undefined && "bytes" in p ? (index.match("", p.bytes)[0]?.blocks ?? 0) : -1));
    };
    const connected: SourceInput = { type: "connected" };
    const replayFirst = held([connected, ...replies, ...live]);
    expect(held([connected, ...live, ...replies])).toEqual(replayFirst);
    expect(
      held([connected, ...live.slice(0, 6), ...replies.slice(0, 9), ...live.slice(6), ...replies.slice(9)]),
    ).toEqual(replayFirst);
    expect(Math.max(...replayFirst)).toBeGreaterThan(0);
  });
});
