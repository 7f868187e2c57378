import { join } from "node:path";
import { ENGINE_KINDS, type EngineKind } from "../core/engine-kind.ts";
import { CgnError } from "../core/errors.ts";
import type { KvEventBatch } from "../core/kv-event.ts";
import { findEngine } from "../engines/registry.ts";
import { createPrefixIndex } from "../kvindex/run-index.ts";
import { readModel } from "../modelfiles/read-model.ts";
import { ChainChecker } from "../prompt/chain-checker.ts";
import { type Capture, type FrameRow, hasRequests, readCapture, readFrames } from "./capture-rows.ts";
import { checkingTools } from "./checking-tools.ts";
import { REDACTED_VOCABULARY } from "./redact-blocks.ts";
import { type VerifyOptions, type VerifyReport, verifyCapture } from "./verify.ts";
import { framesFiles, type StreamReport, verifyStreams } from "./verify-streams.ts";
import { createVocabularies } from "./vocabularies.ts";

export interface VerifyFolderOptions {
  readonly dir: string;
  /** Folder or GGUF of the model; not needed for a capture without content. */
  readonly tokenizer?: string;
  readonly agentNotices: boolean;
  /** Leave the canonicity check out: what bytes alone would predict. */
  readonly bytesAlone?: boolean;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly capBytes: number;
  readonly seed: number;
}

/**
 * Verify a capture folder.
 * @throws CgnError CAPTURE_INVALID, MODEL_NOT_FOUND, BAD_INVOCATION when a tokenizer is needed and none is named
 */
export async function verifyFolder(options: VerifyFolderOptions): Promise<VerifyReport> {
  const capture = await readCapture(options.dir);
  const text = await textOf(options, capture);
  const decode = findEngine(kindOf(capture)).decodeEvents;
  if (decode === undefined)
    throw new CgnError("CAPTURE_INVALID", `Cannot verify ${options.dir}: its engine publishes no events`, {});
  const index = createPrefixIndex({ capBytes: options.capBytes, seed: options.seed });
  const checker = options.bytesAlone === true ? undefined : await checkerOf(options, text);
  return verifyCapture({ capture, text, decode, index, agentNotices: options.agentNotices, checker });
}

/**
 * Take in the events of a folder that is no whole capture: several engines' messages, or no requests. Undefined where it is one.
 * @throws CgnError CAPTURE_INVALID, MODEL_NOT_FOUND, BAD_INVOCATION when a tokenizer is needed and none is named
 */
export async function verifyFolderStreams(options: VerifyFolderOptions): Promise<readonly StreamReport[] | undefined> {
  const { dir, capBytes, seed } = options;
  const files = await framesFiles(dir);
  if (files.length === 0 || (files.length === 1 && files[0] === "frames.jsonl" && (await hasRequests(dir)))) return;
  const all = (await Promise.all(files.map((file) => readFrames(join(dir, file))))).flat();
  const { vocabulary } = await textOf(options, { frames: all, requests: [] });
  return verifyStreams({ dir, files, vocabulary, decoderOf, capBytes, seed });
}

/** The first engine's decoder that understands most of them: nothing else tells whose they are. */
function decoderOf(frames: readonly FrameRow[]): (payload: Uint8Array) => KvEventBatch {
  const understood = (decode: (payload: Uint8Array) => KvEventBatch): number => {
    let count = 0;
    for (const { payload } of frames.slice(0, 100)) {
      try {
        if (payload !== undefined) decode(payload);
        count++;
      } catch {
        // Another engine's.
      }
    }
    return count;
  };
  const decoders = ENGINE_KINDS.flatMap((kind) => findEngine(kind).decodeEvents ?? []);
  return decoders.reduce((best, next) => (understood(next) > understood(best) ? next : best));
}

async function textOf(options: VerifyFolderOptions, capture: Capture): Promise<VerifyOptions["text"]> {
  const { tokenizer } = options;
  if (capture.frames.every((frame) => frame.batch !== undefined) && capture.frames.length > 0) {
    return { vocabulary: REDACTED_VOCABULARY, renderer: undefined };
  }
  if (tokenizer !== undefined)
    return createVocabularies(options.env).of({ models: [tokenizer], tokenizer: { dir: tokenizer } });
  const right = "Say --tokenizer DIR, the folder with tokenizer.json and the chat template";
  throw new CgnError("BAD_INVOCATION", `Cannot verify ${options.dir}: no tokenizer is named. ${right}`, {});
}

async function checkerOf(
  { tokenizer, env }: VerifyFolderOptions,
  { vocabulary }: VerifyOptions["text"],
): Promise<ChainChecker | undefined> {
  if (tokenizer === undefined || vocabulary === REDACTED_VOCABULARY) return undefined;
  const files = await readModel({ tokenizer: { dir: tokenizer }, repos: [], env });
  const tools = files === undefined ? undefined : checkingTools(files);
  return tools === undefined || "reason" in tools ? undefined : new ChainChecker(tools.encoder, tools.vocabulary);
}

/** The engine that a capture's first phase names, or whose command line it holds; else the first that publishes events. */
function kindOf(capture: Capture): EngineKind {
  const phase = capture.requests.find((row) => row.kind === "phase");
  const named = ENGINE_KINDS.find(
    (kind) => phase?.kind === "phase" && (phase.engine === kind || phase.argv.includes(kind)),
  );
  return named ?? ENGINE_KINDS.find((kind) => findEngine(kind).decodeEvents !== undefined) ?? ENGINE_KINDS[0];
}
