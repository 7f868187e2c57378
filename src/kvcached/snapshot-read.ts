import { createHash, type Hash } from "node:crypto";
import { type FileHandle, open } from "node:fs/promises";
import {
  decodeEnd,
  decodeHead,
  FORMAT_VERSION,
  KIND,
  MAGIC,
  MAX_PAYLOAD,
  PREAMBLE_BYTES,
  RECORD_HEAD_BYTES,
  type SnapshotEnd,
  type SnapshotHead,
  sumOf,
} from "./snapshot-format.ts";

/** What a look at a snapshot found. */
export type SnapshotFinding =
  | { readonly is: "whole"; readonly head: SnapshotHead; readonly end: SnapshotEnd; readonly bytes: number }
  | { readonly is: "missing" }
  /** Whole or not: it is of a version that this one does not read. */
  | { readonly is: "version"; readonly version: number }
  | { readonly is: "damaged"; readonly why: string }
  /** The file is there and cannot be read. */
  | { readonly is: "unreadable"; readonly why: string };

export interface SnapshotRecord {
  readonly kind: number;
  /** Good until the next record. */
  readonly payload: Buffer;
}

class Damage extends Error {}

/**
 * Look through a whole file: each record's checksum, and the sum over all. Only what is found whole may be believed. The event loop
 * gets its turn after each record.
 */
export async function checkSnapshot(path: string): Promise<SnapshotFinding> {
  let file: FileHandle;
  try {
    file = await open(path, "r");
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    return code === "ENOENT" ? { is: "missing" } : { is: "unreadable", why: message };
  }
  try {
    const version = await readVersion(file);
    if (version !== FORMAT_VERSION) return { is: "version", version };
    return await checkRecords(file);
  } catch (error) {
    if (error instanceof Damage) return { is: "damaged", why: error.message };
    const { code, message } = error as NodeJS.ErrnoException;
    return code === undefined ? { is: "damaged", why: message } : { is: "unreadable", why: message };
  } finally {
    await file.close();
  }
}

/** The records of a file that `checkSnapshot()` found whole. @throws Error when it changed since */
export async function* readSnapshot(path: string): AsyncGenerator<SnapshotRecord> {
  const file = await open(path, "r");
  try {
    await readVersion(file);
    yield* records(file, undefined);
  } finally {
    await file.close();
  }
}

async function readVersion(file: FileHandle): Promise<number> {
  const bytes = Buffer.alloc(PREAMBLE_BYTES);
  const { bytesRead } = await file.read(bytes, 0, PREAMBLE_BYTES, 0);
  if (bytesRead < PREAMBLE_BYTES || !bytes.subarray(0, MAGIC.length).equals(MAGIC))
    throw new Damage("it is no snapshot");
  return bytes.readUInt32LE(MAGIC.length);
}

async function checkRecords(file: FileHandle): Promise<SnapshotFinding> {
  const hash = createHash("sha256");
  const first = Buffer.alloc(PREAMBLE_BYTES);
  await file.read(first, 0, PREAMBLE_BYTES, 0);
  hash.update(first);
  let head: SnapshotHead | undefined;
  let end: SnapshotEnd | undefined;
  let workers = 0;
  let bytes = PREAMBLE_BYTES;
  for await (const { kind, payload } of records(file, hash)) {
    bytes += RECORD_HEAD_BYTES + payload.length;
    if ((head === undefined) !== (kind === KIND.head)) throw new Damage("its head is not where it should be");
    if (kind === KIND.head) head = decodeHead(payload);
    else if (kind === KIND.worker) workers++;
    else if (kind === KIND.chunk) {
      if (workers === 0) throw new Damage("a chunk belongs to no worker");
    } else end = decodeEnd(payload);
  }
  if (head === undefined || end === undefined) throw new Damage("its end is missing");
  if (end.workers !== workers) throw new Damage(`it has ${workers} workers and says ${end.workers}`);
  return { is: "whole", head, end, bytes };
}

/** Read records one by one. With a hash: compare the end's sum with that of all bytes before it. */
async function* records(file: FileHandle, hash: Hash | undefined): AsyncGenerator<SnapshotRecord> {
  const source = new FileReader(file, PREAMBLE_BYTES);
  for (let ended = false; ; ) {
    const head = await source.take(RECORD_HEAD_BYTES);
    if (head.length === 0) return;
    if (ended) throw new Damage("something follows its end");
    if (head.length < RECORD_HEAD_BYTES) throw new Damage("it is cut");
    const [length, kind, sum] = [head.readUInt32LE(0), head[4]!, head.readUInt32LE(5)];
    if (length > MAX_PAYLOAD || kind < KIND.head || kind > KIND.end) throw new Damage("a record makes no sense");
    // The next look at the file may move the bytes that `head` is a view of.
    const headBytes = hash === undefined || kind === KIND.end ? undefined : Buffer.from(head);
    const payload = await source.take(length);
    if (payload.length < length) throw new Damage("it is cut");
    if (sumOf(kind, payload) !== sum) throw new Damage("a record's checksum is wrong");
    if (headBytes !== undefined) hash?.update(headBytes).update(payload);
    else if (hash !== undefined && !hash.digest().equals(decodeEnd(payload).sha256))
      throw new Damage("its checksum is wrong");
    ended = kind === KIND.end;
    yield { kind, payload };
  }
}

/** A file read in large steps and taken in small ones. */
class FileReader {
  readonly #file: FileHandle;
  #position: number;
  #buffer = Buffer.alloc(0);
  #at = 0;

  constructor(file: FileHandle, position: number) {
    this.#file = file;
    this.#position = position;
  }

  /** The next bytes, fewer at the file's end. A view that is good until the next call. */
  async take(count: number): Promise<Buffer> {
    while (this.#buffer.length - this.#at < count) {
      const rest = this.#buffer.subarray(this.#at);
      const more = Buffer.allocUnsafe(Math.max(count - rest.length, 1024 * 1024));
      const { bytesRead } = await this.#file.read(more, 0, more.length, this.#position);
      this.#position += bytesRead;
      this.#buffer = Buffer.concat([rest, more.subarray(0, bytesRead)]);
      this.#at = 0;
      if (bytesRead === 0) break;
    }
    const taken = this.#buffer.subarray(this.#at, this.#at + count);
    this.#at += taken.length;
    return taken;
  }
}
