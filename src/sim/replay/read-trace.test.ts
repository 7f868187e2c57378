import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { TraceExport } from "./export-trace.ts";
import { openTrace, type TraceOptions } from "./read-trace.ts";
import type { TraceRequest } from "./trace.ts";

let dir = "";
beforeEach(() => void (dir = mkdtempSync(join(tmpdir(), "cgn-trace-"))));
afterEach(() => rmSync(dir, { recursive: true, force: true }));

async function read(text: string, more: Partial<TraceOptions> = {}) {
  const file = join(dir, "trace");
  writeFileSync(file, text);
  const trace = await openTrace({ file, repeat: 1, speed: 1, prefixShare: 0, seed: 1, ...more });
  const requests: TraceRequest[] = [];
  for await (const batch of trace.requests()) requests.push(...batch);
  return { trace, requests };
}

const MOONCAKE = `{"timestamp": 1000, "input_length": 1000, "output_length": 5, "hash_ids": [0, 1]}
{"timestamp": 4000, "input_length": 1500, "output_length": 0, "hash_ids": [0, 1, 7]}
`;

describe("openTrace()", () => {
  it("reads Mooncake's JSON lines from time 0 on", async () => {
    const { trace, requests } = await read(MOONCAKE);
    expect([trace.format, trace.blockTokens, trace.notes]).toEqual(["mooncake", 512, []]);
    expect(requests).toEqual([
      { at: 0, promptTokens: 1000, outputTokens: 5, blocks: [0, 1] },
      { at: 3000, promptTokens: 1500, outputTokens: 1, blocks: [0, 1, 7] },
    ]);
  });

  it("repeats a trace with new blocks behind its end, and compresses its times", async () => {
    const { requests } = await read(MOONCAKE, { repeat: 2, speed: 2, limit: 3 });
    expect(requests.map(({ at, blocks }) => [at, blocks])).toEqual([
      [0, [0, 1]],
      [1500, [0, 1, 7]],
      [3000, [8, 9]],
    ]);
  });

  it("reads Azure's CSV, whose prompts are taken to share nothing", async () => {
    const { trace, requests } = await read(
      // The first rows of data/AzureLLMInferenceTrace_conv.csv.
      "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n",
    );
    expect([trace.format, trace.notes.length]).toEqual(["azure", 1]);
    expect(trace.notes.join()).toContain("share nothing");
    expect(requests.map(({ at }) => Math.round(at))).toEqual([0, 4315]);
    expect(requests.map(({ promptTokens, outputTokens }) => [promptTokens, outputTokens])).toEqual([
      [374, 44],
      [396, 109],
    ]);
    expect(requests.map(({ blocks }) => blocks.length)).toEqual([24, 25]);
    expect(new Set(requests.flatMap(({ blocks }) => blocks)).size).toBe(49);
  });

  it("reads Azure's files of 2024, with a time zone and other columns", async () => {
    const { requests } = await read(
      "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\r\n2024-05-12 00:00:00+00:00,0,16,10\r\n2024-05-12 00:00:00.039985+00:00,2,32,0\r\n2024-05-12 00:00:01.5+00:00,0,0,7\r\n",
    );
    expect(requests.map(({ at, promptTokens }) => [Math.round(at), promptTokens])).toEqual([
      [0, 16],
      [1500, 1],
    ]);
  });

  it("reads BurstGPT's release 2.0, with sessions", async () => {
    const { trace, requests } =
      await read(`Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type
19440110.0,1722ac82-0a46-4bf0-aa08-89794e7a2b3f,43,GPT-4,906,446,1352,Conversation log
19440161.0,d5983bf9-4b48-497b-892b-a58995247443,2,ChatGPT,36,29,65,Conversation log
`);
    expect(trace.format).toBe("burstgpt");
    expect(requests.map(({ at, promptTokens, outputTokens }) => [at, promptTokens, outputTokens])).toEqual([
      [0, 906, 446],
      [51_000, 36, 29],
    ]);
  });

  it("reads BurstGPT's CSV without the requests that failed, and can assume shared starts", async () => {
    const header = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type";
    // As in data/BurstGPT_1.csv.
    const row = (at: number, answer: number) => `${at},ChatGPT,160,${answer},0,Conversation log`;
    const { trace, requests } = await read([header, row(5, 10), row(6, 0), row(7.5, 10)].join("\n"), {
      prefixShare: 0.5,
    });
    expect(trace.notes.join()).toContain("50 %");
    expect(requests.map(({ at }) => at)).toEqual([0, 2500]);
    expect(requests[1]!.blocks.slice(0, 5)).toEqual(requests[0]!.blocks.slice(0, 5));
    expect(requests[1]!.blocks[5]).not.toBe(requests[0]!.blocks[5]);
  });

  it.each([
    ["", "it is empty"],
    ["TIMESTAMP,ContextTokens,GeneratedTokens\n", "it has no requests"],
    ["TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,1e12,3\n", "at most 100000000 tokens"],
    ["a,b,c\n1,2,3\n", "of no format that is known"],
    [`${MOONCAKE}{"timestamp": 1}\n`, "line 3 is wrong"],
    [`{"timestamp": 1, "input_length": 10, "output_length": 1, "hash_ids": [1, 2]}\n`, "at most 1"],
    [
      `${MOONCAKE}{"timestamp": 5000, "input_length": 10, "output_length": 1, "hash_ids": ["x"]}\n`,
      "no small whole number",
    ],
  ])("refuses %j and says where and why", async (text, why) => {
    await expect(read(text)).rejects.toMatchObject({ code: "TRACE_INVALID", message: expect.stringContaining(why) });
  });
});

describe("TraceExport", () => {
  const run = "one";
  const line = (at: number, blocks: readonly string[], more: object = {}) =>
    JSON.stringify({
      run,
      at,
      model: "m",
      prompt_tokens: 900,
      prompt_bytes: 4000,
      output_tokens: 3,
      outcome: "ok",
      blocks,
      ...more,
    });
  const header = (run: string) => JSON.stringify({ format: "cgn-request-log", version: 1, run, chunk_bytes: 2048 });

  it("finish() makes a trace that can be read, in the order of arrival, with none of the log's hashes", async () => {
    const made = new TraceExport("m");
    const lines = [
      header("one"),
      line(2000, ["aa", "bb"]),
      line(1000, ["aa", "cc"]),
      line(3000, ["zz"], { outcome: "cancelled" }),
      line(3000, ["zz"], { model: "other" }),
      line(3000, ["zz"], { output_tokens: undefined }),
      header("two"),
      line(4000, ["aa", "bb"], { run: "two" }),
    ];
    for (const [i, text] of lines.entries()) made.add(text, `log:${i + 1}`);
    const trace = made.finish();
    expect([trace.requests, trace.left]).toEqual([3, { failed: 1, otherModel: 1, noLengths: 1 }]);
    expect(trace.lines.join()).not.toMatch(/aa|bb|cc/);
    const { trace: opened, requests } = await read(`${trace.lines.join("\n")}\n`);
    expect(opened.blockTokens).toBe(461);
    expect(requests.map(({ at }) => at)).toEqual([0, 1000, 3000]);
    const [first, second, other] = requests.map(({ blocks }) => blocks);
    expect(second![0]).toBe(first![0]);
    expect(second![1]).not.toBe(first![1]);
    // Another process has another salt: nothing is known to be equal.
    expect(other![0]).not.toBe(first![0]);
  });

  it("add() refuses what is no request log", () => {
    expect(() => new TraceExport(undefined).add(line(1, [], { run: undefined }), "x:1")).toThrow(/x:1: it is no line/);
    expect(() => new TraceExport(undefined).add("hello", "x:1")).toThrow(/no JSON object/);
  });
});
