import { decode, encode } from "@msgpack/msgpack";
import type { HistorySource } from "./history-source.ts";

/** Grows when what `HistorySource.save()` gives changes its form. */
const VERSION = 1;

/** Write down what a history source knows besides the index. */
export function encodeHistory(source: Pick<HistorySource, "save">): Uint8Array {
  return encode([VERSION, source.save()], { ignoreUndefined: true });
}

/** Let a source of the same kind know it; false when it is of another version or kind: the source then knows what it knew. */
export function decodeHistory(bytes: Uint8Array, source: Pick<HistorySource, "restore">): boolean {
  try {
    const [version, saved] = decode(bytes) as [number, unknown];
    if (version !== VERSION) return false;
    source.restore(saved);
    return true;
  } catch {
    return false;
  }
}
