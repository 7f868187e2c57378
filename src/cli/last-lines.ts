import { open, stat } from "node:fs/promises";
import { rotatedNames } from "../process/log-bounds.ts";

/** No more than this is read of a file's end. */
const TAIL_BYTES = 1024 * 1024;

/** The last lines of a log, from its rotated files where the newest has too few. */
export async function lastLines(path: string, count: number, files: number): Promise<string[]> {
  let lines: string[] = [];
  for (const each of [path, ...rotatedNames(path, files)]) {
    if (lines.length >= count) break;
    lines = [...(await linesOf(each)), ...lines];
  }
  return count === 0 ? [] : lines.slice(-count);
}

async function linesOf(path: string): Promise<string[]> {
  const size = (await stat(path).catch(() => undefined))?.size ?? 0;
  if (size === 0) return [];
  const file = await open(path, "r");
  try {
    const from = Math.max(0, size - TAIL_BYTES);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(size - from), 0, size - from, from);
    const lines = buffer.toString("utf8", 0, bytesRead).split("\n");
    if (lines.at(-1) === "") lines.pop();
    // The first one may be half a line.
    return from > 0 ? lines.slice(1) : lines;
  } finally {
    await file.close();
  }
}
