import { isCgnError } from "../../core/errors.ts";
import { workerId } from "../../core/ids.ts";
import type { KvEventBatch } from "../../core/kv-event.ts";
import type { DecodeBlocks } from "../../kvindex/apply-events.ts";
import { applyEvents } from "../../kvindex/apply-events.ts";
import { EventShape } from "../../kvindex/event-shape.ts";
import type { PrefixIndex } from "../../kvindex/prefix-index.ts";
import { readLiveFrames } from "../event-frames.ts";
import { DEFAULT_SOURCE_POLICY, initialSource, type SourceInput, type SourceState } from "../source-state.ts";
import { stepSource } from "../source-step.ts";

/** Random words, the same on every machine (xorshift32). */
export function dice(seed: number): (n: number) => number {
  let state = seed | 1;
  return (n) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % n;
  };
}

/** Heads of MessagePack values, with the lengths that hurt. */
const HEADS = [
  0xdd, 0xff, 0xff, 0xff, 0xff, 0xdc, 0xff, 0xff, 0xdf, 0x7f, 0xc6, 0xdb, 0xc1, 0xc7, 0xd8, 0xcb, 0x90, 0x80, 0xc0,
];

/** A captured payload, spoilt in one of many ways. */
export function mutated(payloads: readonly Uint8Array[], roll: (n: number) => number): Uint8Array {
  const one = payloads[roll(payloads.length)]!;
  const bytes = Uint8Array.from(one);
  switch (roll(9)) {
    case 0: // bits
      for (let i = 1 + roll(8); i > 0; i--) bytes[roll(bytes.length)]! ^= 1 << roll(8);
      return bytes;
    case 1: // bytes
      for (let i = 1 + roll(8); i > 0; i--) bytes[roll(bytes.length)] = roll(256);
      return bytes;
    case 2: // heads with false lengths
      for (let i = 1 + roll(3); i > 0; i--) {
        const at = roll(bytes.length);
        for (let k = 0; k < 5 && at + k < bytes.length; k++)
          bytes[at + k] = HEADS[(roll(HEADS.length) + k) % HEADS.length]!;
      }
      return bytes;
    case 3: // cut
      return bytes.subarray(0, roll(bytes.length));
    case 4: // two halves of different messages
      return join(bytes.subarray(0, roll(bytes.length)), payloads[roll(payloads.length)]!.subarray(roll(bytes.length)));
    case 5: {
      // a part again
      const from = roll(bytes.length);
      const part = bytes.subarray(from, from + roll(64));
      return join(join(bytes.subarray(0, from), part), bytes.subarray(from));
    }
    case 6: // noise
      return Uint8Array.from({ length: roll(200) }, () => roll(256));
    case 7: // a false number where one stood
      bytes[roll(bytes.length)] = [0x00, 0x7f, 0xe0, 0xcf, 0xd3][roll(5)]!;
      return bytes;
    default: // as it was
      return bytes;
  }
}

function join(a: Uint8Array, b: Uint8Array): Uint8Array {
  const joined = new Uint8Array(a.length + b.length);
  joined.set(a);
  joined.set(b, a.length);
  return joined;
}

/** What came of hostile frames. */
export interface FuzzReport {
  frames: number;
  decoded: number;
  malformed: number;
  garbage: number;
  clears: number;
  /** How often the source was left alone. */
  failures: number;
  /** What was thrown that nobody expects; must be empty. */
  readonly crashes: string[];
  /** Milliseconds of the longest frame. */
  longestMs: number;
  state: SourceState;
}

export interface FuzzOptions {
  readonly payloads: readonly Uint8Array[];
  readonly decode: (payload: Uint8Array) => KvEventBatch;
  readonly vocabulary: DecodeBlocks;
  readonly index: PrefixIndex;
  readonly seed: number;
  now(): number;
}

/**
 * Send frames, most of them spoilt, down the way that an engine's frames go: apart, decoded, ordered, applied. In order as
 * often as not, so that the source is not left alone all the time.
 */
export function* fuzzFrames(options: FuzzOptions): Generator<FuzzReport, never> {
  const { payloads, index } = options;
  const roll = dice(options.seed);
  const slot = index.addWorker(workerId("hostile"));
  const shape = new EventShape();
  let state = initialSource(true, 0);
  const report: FuzzReport = {
    frames: 0,
    decoded: 0,
    malformed: 0,
    garbage: 0,
    clears: 0,
    failures: 0,
    crashes: [],
    longestMs: 0,
    state,
  };
  let now = 0;
  const apply = (batch: KvEventBatch) => applyEvents(index, slot, batch, options.vocabulary, shape);
  const feed = (input: SourceInput) => {
    const [next, ...effects] = stepSource(state, input, now, POLICY);
    if (next.at === "failed" && state.at !== "failed") report.failures++;
    report.state = state = next;
    for (const effect of effects) {
      if (effect.do === "apply") apply(effect.batch);
      else if (effect.do === "clear") {
        report.clears++;
        index.clearWorker(slot);
        shape.reset();
      } else feed({ type: "replay-end", request: effect.request });
    }
  };
  /** For a while most frames are as they should be, so that there is something to spoil. */
  let calm = true;
  const one = () => {
    if (roll(300) === 0) calm = !calm;
    const intact = calm && roll(10) > 0;
    const payload = intact ? payloads[roll(payloads.length)]! : mutated(payloads, roll);
    const read = readLiveFrames(intact ? frames(payload, state.next) : spoiltFrames(payload, state.next, roll));
    if (read.kind !== "message") {
      report.garbage++;
      feed({ type: "garbage" });
      return;
    }
    let batch: KvEventBatch | undefined;
    try {
      batch = options.decode(read.payload);
      report.decoded++;
    } catch (error) {
      report.malformed++;
      if (!isCgnError(error, "EVENTS_MALFORMED")) throw error;
    }
    feed({ type: "live", seq: read.seq, batch });
    // A source that was left alone would hide the index from what makes sense by chance.
    if (batch !== undefined && roll(2) === 0) apply(batch);
  };
  feed({ type: "connected" });
  for (;;) {
    now += 1 + roll(20);
    const start = options.now();
    try {
      one();
      if (roll(50) === 0) feed({ type: "tick" });
      if (roll(500) === 0) feed({ type: "disconnected" });
      if (roll(100) === 0) feed({ type: "connected" });
    } catch (error) {
      report.crashes.push(error instanceof Error ? (error.stack ?? error.message) : String(error));
    }
    report.frames++;
    report.longestMs = Math.max(report.longestMs, options.now() - start);
    yield report;
  }
}

/** A source that failed is met again soon: it is to be tormented, not spared. */
const POLICY = { ...DEFAULT_SOURCE_POLICY, failMs: 200, failMaxMs: 1_000 };

function frames(payload: Uint8Array, number: number): Uint8Array[] {
  const seq = new Uint8Array(8);
  new DataView(seq.buffer).setBigUint64(0, BigInt(number));
  return [new Uint8Array(0), seq, payload];
}

/** Topic, number and payload; sometimes fewer, more, or others. */
function spoiltFrames(payload: Uint8Array, next: number, roll: (n: number) => number): Uint8Array[] {
  const seq = new Uint8Array(roll(40) === 0 ? roll(12) : 8);
  const number = [next, next, next, next, next + 1, Math.max(0, next - 1), roll(1_000), 2 ** 53 - 1][roll(8)]!;
  if (seq.length === 8) new DataView(seq.buffer).setBigUint64(0, roll(100) === 0 ? 2n ** 64n - 1n : BigInt(number));
  const parts = [new Uint8Array(roll(3)), seq, payload];
  if (roll(40) === 0) parts.splice(roll(3), 1);
  if (roll(40) === 0) parts.push(new Uint8Array(roll(4)));
  return parts;
}
