import type { History, HistoryEntry, HistoryHit } from "./history.ts";
import type { RecordedPrompt, WorkerSlot } from "./prefix-index.ts";
import { bytesAt, cleanMarks, tokensAt } from "./token-marks.ts";

/** The plain twin of the history tree: every prompt compared with every other, byte by byte. */
class NaiveHistory implements History {
  readonly #limits = new Map<WorkerSlot, number>();
  #entries: HistoryEntry[] = [];

  get size(): number {
    return this.#entries.length;
  }

  get bytes(): number {
    return this.#entries.reduce((sum, entry) => sum + entry.bytes.length, 0);
  }

  add(slot: WorkerSlot, maxEntries: number): void {
    this.#limits.set(slot, maxEntries);
  }

  drop(slot: WorkerSlot): void {
    this.clear(slot);
    this.#limits.delete(slot);
  }

  clear(slot: WorkerSlot): void {
    this.#entries = this.#entries.filter((entry) => entry.slot !== slot);
  }

  entries(slot: WorkerSlot): readonly HistoryEntry[] {
    return this.#entries.filter((entry) => entry.slot === slot);
  }

  record(slot: WorkerSlot, prompt: RecordedPrompt, stamp: number, limit = prompt.bytes.length): void {
    const { root } = prompt;
    const bytes = prompt.bytes.slice();
    const own = this.#entries.filter((entry) => entry.slot === slot);
    const inside = own.filter((entry) => entry.root === root && common(entry.bytes, bytes) === entry.bytes.length);
    const marks = cleanMarks([...inside.flatMap((entry) => entry.marks), ...prompt.marks], bytes.length);
    this.#entries = this.#entries.filter((entry) => !inside.includes(entry));
    this.#entries.push({ slot, root, bytes, marks, stamp, limit });
    const kept = this.#entries.filter((entry) => entry.slot === slot);
    const tooMany = kept.slice(0, Math.max(0, kept.length - (this.#limits.get(slot) ?? 0)));
    this.#entries = this.#entries.filter((entry) => !tooMany.includes(entry));
  }

  match(root: string, prompt: Uint8Array, hit: HistoryHit): void {
    for (const slot of this.#limits.keys()) {
      let best: HistoryEntry | undefined;
      let depth = 0;
      for (const entry of this.#entries) {
        const held = Math.min(entry.limit, common(entry.bytes, prompt));
        if (entry.slot !== slot || entry.root !== root || held < depth) continue;
        best = entry;
        depth = held;
      }
      if (best === undefined) continue;
      const tokens = tokensAt(best.marks, depth) - (depth === prompt.length ? 1 : 0);
      if (tokens > 0) hit(slot, depth, tokens);
    }
  }

  correct(slot: WorkerSlot, root: string, prompt: Uint8Array, reportedTokens: number, since: number): boolean {
    let changed = false;
    for (const entry of this.#entries) {
      if (entry.slot !== slot || entry.root !== root || entry.stamp > since) continue;
      const held = Math.min(entry.limit, common(entry.bytes, prompt));
      const limit = bytesAt(entry.marks, reportedTokens);
      if (limit >= held) continue;
      entry.limit = limit;
      changed = true;
    }
    return changed;
  }

  evictOldest(): boolean {
    return this.#entries.shift() !== undefined;
  }
}

function common(a: Uint8Array, b: Uint8Array): number {
  let n = 0;
  while (n < a.length && n < b.length && a[n] === b[n]) n++;
  return n;
}

/** Make the plain twin, for tests. */
export function createNaiveHistory(): History {
  return new NaiveHistory();
}
