import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readLiveFrames, readReplyFrames, replayRequest } from "./event-frames.ts";
import { readJson, sglangFrames, VLLM_RUNS, vllmRun } from "./testing/fixtures.ts";

const bytes = (base64: string): Uint8Array => Buffer.from(base64, "base64");
const kinds = (replies: readonly (readonly string[])[]) =>
  replies.map((frames) => {
    const read = readReplyFrames(frames.map(bytes));
    return read.kind === "message" ? read.seq : read.kind;
  });

interface Replay {
  readonly start: number;
  readonly request_frames: readonly string[];
  readonly replies: readonly (readonly string[])[];
}

describe("readReplyFrames", () => {
  for (const run of VLLM_RUNS) {
    it(`readReplyFrames() reads what vLLM 0.32 replays (${run})`, () => {
      const replay = (name: string) => readJson<Replay>(join(vllmRun(run), `replay_${name}.json`));
      expect(kinds(replay("all").replies)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, "end"]);
      expect(kinds(replay("from5").replies)).toEqual([5, 6, 7, 8, 9, 10, 11, "end"]);
      expect(kinds(replay("beyond").replies)).toEqual(["end"]);
      expect(replayRequest(1_000_000)).toEqual(replay("beyond").request_frames.map((f) => new Uint8Array(bytes(f))));
    });
  }

  it("readReplyFrames() reads what SGLang 0.5.23 replays, and replies of engines that leave the topic out", () => {
    const replies = sglangFrames().replay_from_seq_2 as string[][];
    expect(kinds(replies)).toEqual([2, 3, 4, 5, 6, 7, "end"]);
    expect(kinds(replies.map(([delimiter = "", , ...rest]) => [delimiter, ...rest]))).toEqual([
      2,
      3,
      4,
      5,
      6,
      7,
      "end",
    ]);
  });
});

describe("readLiveFrames", () => {
  it("readLiveFrames() calls anything but topic, eight bytes and payload garbage", () => {
    const seq = Buffer.from([0, 0, 0, 0, 0, 0, 1, 2]);
    expect(readLiveFrames([Buffer.from("t"), seq, Buffer.from("p")])).toMatchObject({
      kind: "message",
      topic: "t",
      seq: 258,
    });
    for (const frames of [[], [seq], [seq, seq], [Buffer.from("t"), Buffer.from("1"), seq], [seq, seq, seq, seq]]) {
      expect(readLiveFrames(frames)).toEqual({ kind: "garbage" });
    }
    expect(readLiveFrames([Buffer.from("t"), Buffer.alloc(8, 0xfe), seq])).toEqual({ kind: "garbage" });
  });

  it("readLiveFrames() and readReplyFrames() never throw", () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 12 }), { maxLength: 6 }), (frames) => {
        for (const read of [readLiveFrames(frames), readReplyFrames(frames)])
          expect(["message", "end", "garbage"]).toContain(read.kind);
      }),
    );
  });
});
