import { StringDecoder } from "node:string_decoder";
import { stripVTControlCharacters } from "node:util";

/** The last lines that a process wrote. */
export interface LineTail {
  push(chunk: Uint8Array): void;
  /** The last `count` lines, oldest first; the unfinished line counts as one. */
  last(count: number): readonly string[];
  clear(): void;
}

/** A line that is longer (a dumped configuration, a matrix) is cut here, in UTF-16 units. */
const MAX_LINE = 2_000;

/**
 * Keep the last lines of a stream of bytes: UTF-8 across chunks, colours taken out, and what follows a bare `\r` replaces
 * the line (progress bars of `tqdm`), so that the last line is always what a person would see.
 */
export function createLineTail(capacity = 200): LineTail {
  const decoder = new StringDecoder("utf8");
  let lines: string[] = [];
  let partial = "";
  return {
    push(chunk) {
      const parts = (partial + decoder.write(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength))).split(
        "\n",
      );
      partial = (parts.pop() ?? "").slice(-MAX_LINE);
      for (const part of parts.slice(-capacity)) {
        const line = visible(part);
        if (line !== "") lines.push(line);
      }
      // Twice the capacity before the cut, so that the copy is rare.
      if (lines.length > 2 * capacity) lines = lines.slice(-capacity);
    },
    last(count) {
      const open = visible(partial);
      return (open === "" ? lines : [...lines, open]).slice(-Math.min(count, capacity));
    },
    clear() {
      lines = [];
      partial = "";
    },
  };
}

function visible(line: string): string {
  const plain = stripVTControlCharacters(line).replace(/\r+$/, "");
  return plain
    .slice(plain.lastIndexOf("\r") + 1)
    .slice(0, MAX_LINE)
    .trimEnd();
}
