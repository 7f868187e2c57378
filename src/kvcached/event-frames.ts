/** A multipart message of a KV event publisher, taken apart. */
export type EventFrames =
  | { readonly kind: "message"; readonly topic: string; readonly seq: number; readonly payload: Uint8Array }
  /** The end marker of a replay: sequence number -1 (eight bytes 0xFF), nothing else. */
  | { readonly kind: "end" }
  | { readonly kind: "garbage" };

/**
 * Take the frames of a live message apart: topic, sequence number (8 bytes, big endian), payload.
 * Source: ZmqEventPublisher of vLLM 0.32 and SGLang 0.5.23, captured.
 */
export function readLiveFrames(frames: readonly Uint8Array[]): EventFrames {
  const [topic, seq, payload] = frames;
  if (frames.length !== 3 || topic === undefined || seq === undefined || payload === undefined)
    return { kind: "garbage" };
  return read(topic, seq, payload);
}

/**
 * Take the frames of one replay reply apart: an empty delimiter, the topic (today's engines; older ones leave it out), the
 * sequence number, the payload. The end marker has an empty payload.
 */
export function readReplyFrames(frames: readonly Uint8Array[]): EventFrames {
  const parts = frames[0]?.length === 0 && frames.length > 2 ? frames.slice(1) : frames;
  const topic = parts.length === 3 ? parts[0] : EMPTY;
  const seq = parts.at(-2);
  const payload = parts.at(-1);
  if (topic === undefined || seq === undefined || payload === undefined || parts.length > 3) return { kind: "garbage" };
  return read(topic, seq, payload);
}

/** The request that a replay endpoint takes: an empty delimiter and the first sequence number wanted. */
export function replayRequest(from: number): readonly [Uint8Array, Uint8Array] {
  const seq = new Uint8Array(8);
  new DataView(seq.buffer).setBigUint64(0, BigInt(from));
  return [EMPTY, seq];
}

const EMPTY = new Uint8Array(0);
const END = 0xffff_ffff_ffff_ffffn;

function read(topic: Uint8Array, seq: Uint8Array, payload: Uint8Array): EventFrames {
  if (seq.length !== 8) return { kind: "garbage" };
  const number = new DataView(seq.buffer, seq.byteOffset, 8).getBigUint64(0);
  if (number === END) return payload.length === 0 ? { kind: "end" } : { kind: "garbage" };
  if (number > BigInt(Number.MAX_SAFE_INTEGER)) return { kind: "garbage" };
  return { kind: "message", topic: textOf(topic), seq: Number(number), payload };
}

const utf8 = new TextDecoder();
let lastTopic: Uint8Array = EMPTY;
let lastText = "";

/** All messages of an engine have one topic. */
function textOf(topic: Uint8Array): string {
  if (topic.length !== lastTopic.length || topic.some((byte, i) => byte !== lastTopic[i])) {
    lastTopic = Uint8Array.from(topic);
    lastText = utf8.decode(topic);
  }
  return lastText;
}
