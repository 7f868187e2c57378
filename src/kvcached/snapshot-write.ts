import { createHash } from "node:crypto";
import { type FileHandle, mkdir, open, rename, unlink } from "node:fs/promises";
import { dirname } from "node:path";
import {
  encodeEnd,
  encodeHead,
  encodeWorker,
  KIND,
  preamble,
  record,
  type SnapshotHead,
  type SnapshotWorker,
} from "./snapshot-format.ts";

/** What is to be written, asked for bit by bit: between two chunks the index may change. */
export interface SnapshotContent {
  readonly head: SnapshotHead;
  /** Blocks held, for the file's end. */
  readonly blocks: number;
  /** A worker's record is taken before its first chunk: events from its point on are applied over the chunks. */
  readonly workers: Iterable<SnapshotWorker & { chunks(): Iterable<Uint8Array> }>;
}

export interface WrittenSnapshot {
  readonly bytes: number;
  readonly workers: number;
}

/**
 * Write a snapshot beside its place, make sure that it is on the disk, and let it take the place of the one before. A cut of power
 * leaves one of both, whole. The event loop gets its turn after each chunk.
 * @throws NodeJS.ErrnoException, nothing is left over then
 */
export async function writeSnapshot(path: string, content: SnapshotContent): Promise<WrittenSnapshot> {
  const beside = `${path}.new`;
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  // What a run before left unfinished; never followed, if somebody made it a link.
  await unlink(beside).catch(() => {});
  const file = await open(beside, "wx", 0o600);
  try {
    const written = await writeContent(file, content);
    await file.sync();
    await file.close();
    await rename(beside, path);
    await syncFolder(dirname(path));
    return written;
  } catch (error) {
    await file.close().catch(() => {});
    await unlink(beside).catch(() => {});
    throw error;
  }
}

async function writeContent(file: FileHandle, { head, blocks, workers }: SnapshotContent): Promise<WrittenSnapshot> {
  const hash = createHash("sha256");
  let bytes = 0;
  const put = async (part: Buffer): Promise<void> => {
    hash.update(part);
    bytes += part.length;
    for (let at = 0; at < part.length; ) at += (await file.write(part, at)).bytesWritten;
  };
  await put(preamble());
  await put(record(KIND.head, encodeHead(head)));
  let count = 0;
  for (const worker of workers) {
    count++;
    const chunks = worker.chunks();
    await put(record(KIND.worker, encodeWorker(worker)));
    for (const chunk of chunks) await put(record(KIND.chunk, chunk));
  }
  await put(record(KIND.end, encodeEnd({ workers: count, blocks, sha256: hash.copy().digest() })));
  return { bytes, workers: count };
}

/** The new name itself must be on the disk too. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, "r");
  try {
    await folder.sync();
  } catch {
    // Some file systems refuse it for folders; the name is there all the same.
  } finally {
    await folder.close();
  }
}
