import { crc32 } from "node:zlib";
import { decode, encode } from "@msgpack/msgpack";
import type { WorkerInfo } from "../core/worker.ts";
import type { SavedShape } from "../kvindex/event-shape.ts";
import { workerFromBytes, workerToBytes } from "../wire/worker-message.ts";
import type { ResumePoint } from "./source-state.ts";

// A snapshot is a file of records behind a magic text and a version:
//
//   "cgn kv snapshot\n" · version u32 · record … record
//   record = length u32 · kind u8 · crc32 of kind and payload u32 · payload [length]
//
// Numbers are little endian. The first record is the head, then for each worker its own record and its chunks, and the last
// record is the end, which has the SHA-256 of all bytes before it. Nothing may follow.

export const MAGIC = Buffer.from("cgn kv snapshot\n");
/** Grows when what stands in the file changes its form or its meaning. Others are not read. */
export const FORMAT_VERSION = 1;
export const PREAMBLE_BYTES = MAGIC.length + 4;
export const RECORD_HEAD_BYTES = 9;
/** Longest payload: a chunk of the index is at most 256 KiB. */
export const MAX_PAYLOAD = 2 * 1024 * 1024;

export const KIND = { head: 1, worker: 2, chunk: 3, end: 4 } as const;

/** First record. */
export interface SnapshotHead {
  /** Seed of the hashes in the chunks: a secret, so the file is for its owner's eyes. */
  readonly seed: number;
  /** The run of kvcached that wrote it. */
  readonly instance: string;
  /** Milliseconds since the epoch. */
  readonly writtenAt: number;
}

/** What stands of a worker besides its chunks. */
export interface SnapshotWorker {
  readonly info: WorkerInfo;
  readonly resume: ResumePoint;
  readonly shape: SavedShape;
}

/** Last record. */
export interface SnapshotEnd {
  readonly workers: number;
  readonly blocks: number;
  /** SHA-256 of all bytes before the record. */
  readonly sha256: Uint8Array;
}

export function preamble(): Buffer {
  const bytes = Buffer.alloc(PREAMBLE_BYTES);
  MAGIC.copy(bytes);
  bytes.writeUInt32LE(FORMAT_VERSION, MAGIC.length);
  return bytes;
}

/** One record with its head. */
export function record(kind: number, payload: Uint8Array): Buffer {
  const bytes = Buffer.allocUnsafe(RECORD_HEAD_BYTES + payload.length);
  bytes.writeUInt32LE(payload.length, 0);
  bytes[4] = kind;
  bytes.set(payload, RECORD_HEAD_BYTES);
  bytes.writeUInt32LE(sumOf(kind, payload), 5);
  return bytes;
}

/** Checksum of a record. */
export function sumOf(kind: number, payload: Uint8Array): number {
  return crc32(payload, crc32(Uint8Array.of(kind)));
}

export const encodeHead = (head: SnapshotHead): Uint8Array => encode(head);
export const encodeEnd = (end: SnapshotEnd): Uint8Array => encode(end);

export function encodeWorker({ info, resume, shape }: SnapshotWorker): Uint8Array {
  return encode({ info: workerToBytes(info), resume, shape });
}

/** @throws Error for bytes that are none */
export function decodeHead(bytes: Uint8Array): SnapshotHead {
  const { seed, instance, writtenAt } = decode(bytes) as SnapshotHead;
  if (!Number.isInteger(seed) || typeof instance !== "string" || !Number.isFinite(writtenAt))
    throw new Error("no head");
  return { seed, instance, writtenAt };
}

/** @throws Error for bytes that are none */
export function decodeWorker(bytes: Uint8Array): SnapshotWorker {
  const { info, resume, shape } = decode(bytes) as { info: Uint8Array } & Omit<SnapshotWorker, "info">;
  if (!(resume.next > 0) || !Number.isFinite(resume.lastTs)) throw new Error("no point to go on from");
  return { info: workerFromBytes(info), resume, shape };
}

/** @throws Error for bytes that are none */
export function decodeEnd(bytes: Uint8Array): SnapshotEnd {
  const { workers, blocks, sha256 } = decode(bytes) as SnapshotEnd;
  if (!(sha256 instanceof Uint8Array)) throw new Error("no end");
  return { workers, blocks, sha256 };
}
