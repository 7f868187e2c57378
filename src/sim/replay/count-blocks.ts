import { BitSet } from "./bits.ts";
import type { Trace } from "./read-trace.ts";

/** Room for running answers beside all prompts. */
const SPARE_BLOCKS = 65_536;

/** So many blocks hold all that a trace ever stores: a cache without limits. Reads the trace through. */
export async function blocksWithoutLimit(trace: Trace): Promise<number> {
  const seen = new BitSet();
  let count = 0;
  for await (const batch of trace.requests()) {
    for (const { blocks } of batch) {
      for (const key of blocks) {
        if (seen.has(key)) continue;
        seen.add(key);
        count++;
      }
    }
  }
  return count + SPARE_BLOCKS;
}
