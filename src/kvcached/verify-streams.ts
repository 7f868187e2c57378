import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { workerId } from "../core/ids.ts";
import type { KvEventBatch } from "../core/kv-event.ts";
import { applyEvents } from "../kvindex/apply-events.ts";
import { EventShape } from "../kvindex/event-shape.ts";
import { createPrefixIndex } from "../kvindex/run-index.ts";
import type { Vocabulary } from "../prompt/vocabulary.ts";
import { type FrameRow, readFrames } from "./capture-rows.ts";
import { initialSource, type SourceInput } from "./source-state.ts";
import { stepSource } from "./source-step.ts";

/** What became of one engine's recorded event messages. */
export interface StreamReport {
  readonly file: string;
  readonly frames: number;
  readonly decoded: number;
  /** Blocks. */
  readonly stored: number;
  readonly removed: number;
  /** What was odd about them, in words; empty for a stream that is whole. */
  readonly complaints: readonly string[];
}

/** Frames files of a folder, one an engine: `frames.jsonl`, `frames_NAME.jsonl`, `frames-NAME.jsonl`, gzipped or not. */
export async function framesFiles(dir: string): Promise<readonly string[]> {
  const names = await readdir(dir).catch(() => []);
  const found = names.filter((name) => /^frames([-_].+)?\.jsonl(\.gz)?$/.test(name));
  return [...new Set(found.map((name) => name.replace(/\.gz$/, "")))].sort();
}

export interface StreamOptions {
  readonly dir: string;
  readonly files: readonly string[];
  readonly vocabulary: Pick<Vocabulary, "decodeBlocks">;
  /** The decoder of the engine that these are of. */
  readonly decoderOf: (frames: readonly FrameRow[]) => (payload: Uint8Array) => KvEventBatch;
  readonly capBytes: number;
  readonly seed: number;
}

/**
 * Take each file's messages in as kvcached would: for captures without requests, or of several engines.
 * @throws CgnError CAPTURE_INVALID naming file and line
 */
export async function verifyStreams(options: StreamOptions): Promise<readonly StreamReport[]> {
  const reports: StreamReport[] = [];
  for (const file of options.files) reports.push(takenIn(file, await readFrames(join(options.dir, file)), options));
  return reports;
}

function takenIn(file: string, frames: readonly FrameRow[], options: StreamOptions): StreamReport {
  const index = createPrefixIndex({ capBytes: options.capBytes, seed: options.seed });
  const slot = index.addWorker(workerId("capture"));
  const shape = new EventShape(undefined);
  const sum = { stored: 0, removed: 0, orphaned: 0, undecodable: 0, otherSizes: 0, copied: 0 };
  const forgot: string[] = [];
  let state = initialSource(false, 0);
  const feed = (input: SourceInput) => {
    const [next, ...effects] = stepSource(state, input, 0);
    state = next;
    for (const effect of effects) {
      if (effect.do === "clear") {
        index.clearWorker(slot);
        shape.reset();
        forgot.push(`all was forgotten: ${effect.why}`);
      } else if (effect.do === "apply") {
        const one = applyEvents(index, slot, effect.batch, (ids, n) => options.vocabulary.decodeBlocks(ids, n), shape);
        for (const name of Object.keys(sum) as (keyof typeof sum)[]) sum[name] += one[name];
      }
    }
  };
  const decode = options.decoderOf(frames);
  let decoded = 0;
  feed({ type: "connected" });
  for (const { seq, payload, batch: redacted } of frames) {
    const batch = redacted ?? decodedBy(decode, payload);
    if (batch !== undefined) decoded++;
    feed({ type: "live", seq, batch });
  }
  const { unknownRemovals } = index.stats();
  const { gaps, duplicates } = state.counts;
  const odd = [
    [frames.length === 0 ? 1 : 0, "file without messages"],
    [frames.length - decoded, "messages not understood"],
    [gaps, "holes in the sequence"],
    [duplicates, "messages that came before"],
    [sum.orphaned, "blocks whose parent is not known"],
    [sum.undecodable, "blocks with token ids that the vocabulary lacks"],
    [sum.otherSizes, "blocks of a size that does not fit"],
    [sum.copied, "blocks told to lie in another tier without their tokens"],
    [unknownRemovals, "removals of blocks that were never stored"],
  ] as const;
  const counted = odd.filter(([count]) => count > 0).map(([count, what]) => `${count} ${what}`);
  const { stored, removed } = sum;
  return { file, frames: frames.length, decoded, stored, removed, complaints: [...counted, ...forgot] };
}

function decodedBy(decode: (payload: Uint8Array) => KvEventBatch, payload: Uint8Array | undefined) {
  try {
    return payload === undefined ? undefined : decode(payload);
  } catch {
    return undefined;
  }
}
