import type { BlockName, BlockNames } from "../core/kv-event.ts";
import type { StoredBlocks } from "../kvindex/prefix-index.ts";

/** A change of what one worker holds, as it is kept for a while. */
export type JournalChange =
  | ({ readonly type: "stored" } & KeptBlocks)
  | { readonly type: "removed"; readonly names: BigUint64Array }
  /** Blocks do not count any more, or do again: the check of generated tokens said so. */
  | { readonly type: "counted"; readonly names: BigUint64Array; readonly counted: boolean }
  | { readonly type: "cleared" };

/** As `StoredBlocks`, with arrays of its own. */
export interface KeptBlocks {
  readonly root: string;
  readonly parent: BlockName | undefined;
  readonly names: BigUint64Array;
  readonly bytes: Uint8Array;
  /** [n] where each block ends in `bytes`. */
  readonly ends: Uint32Array;
}

/** A change and when it was applied, in milliseconds of the owner's clock. */
export type JournalEntry = JournalChange & { readonly atMs: number };

/** What the journals of all workers of a process may take, and that of one at most. */
const ALL_BYTES = 64 * 1024 * 1024;
const MAX_BYTES = 2 * 1024 * 1024;

/** What one worker's journal may take where so many are followed. */
export const journalBytes = (workers: number): number => Math.min(MAX_BYTES, ALL_BYTES / Math.max(1, workers));

/** What an entry takes besides its arrays, about. */
const ENTRY_BYTES = 256;

/**
 * The last changes of one worker, numbered, bounded in bytes: by them a prediction that was wrong is explained. Nothing is kept
 * before `begin()`, so that a worker to which nobody sends costs nothing.
 */
export class ChangeJournal {
  readonly #maxBytes: () => number;
  #entries: JournalEntry[] = [];
  /** Entries at the front that are void. */
  #void = 0;
  /** Number of the first entry that is kept. */
  #first = 0;
  #bytes = 0;
  #kept = false;

  constructor(maxBytes: () => number) {
    this.#maxBytes = maxBytes;
  }

  /** The number that the next change gets. */
  get next(): number {
    return this.#first + this.#entries.length - this.#void;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** From now on changes are kept. */
  begin(): void {
    this.#kept = true;
  }

  /** Forget all, and keep nothing until `begin()`. */
  end(): void {
    this.#first = this.next;
    this.#entries = [];
    this.#void = 0;
    this.#bytes = 0;
    this.#kept = false;
  }

  stored({ root, parent, names, bytes, ends }: StoredBlocks, atMs: number): void {
    if (!this.#kept) return;
    // One piece of memory for all three: each of its own costs more than what most hold.
    const endsAt = 8 * names.length;
    const bytesAt = endsAt + 4 * ends.length;
    const memory = new ArrayBuffer(bytesAt + bytes.length);
    const kept = {
      names: new BigUint64Array(memory, 0, names.length),
      ends: new Uint32Array(memory, endsAt, ends.length),
      bytes: new Uint8Array(memory, bytesAt),
    };
    kept.names.set(names);
    kept.ends.set(ends);
    kept.bytes.set(bytes);
    this.#add({ type: "stored", root, parent, ...kept, atMs });
  }

  removed(names: BlockNames, atMs: number): void {
    if (this.#kept) this.#add({ type: "removed", names: BigUint64Array.from(names), atMs });
  }

  counted(names: BlockNames, counted: boolean, atMs: number): void {
    if (this.#kept) this.#add({ type: "counted", names: BigUint64Array.from(names), counted, atMs });
  }

  cleared(atMs: number): void {
    if (this.#kept) this.#add({ type: "cleared", atMs });
  }

  /** The first change that was applied at this time or later. */
  firstAt(atMs: number): number {
    let i = this.#entries.length;
    while (i > this.#void && this.#entries[i - 1]!.atMs >= atMs) i--;
    return this.#first + i - this.#void;
  }

  /** The changes from this number on, as far as they are kept, and whether all of them are. */
  since(number: number): { readonly whole: boolean; readonly changes: readonly JournalEntry[] } {
    const from = this.#void + Math.max(0, number - this.#first);
    return { whole: number >= this.#first, changes: this.#entries.slice(from) };
  }

  #add(entry: JournalEntry): void {
    this.#entries.push(entry);
    this.#bytes += bytesOf(entry);
    const max = this.#maxBytes();
    while (this.#bytes > max && this.#void < this.#entries.length) {
      this.#bytes -= bytesOf(this.#entries[this.#void++]!);
      this.#first++;
    }
    // Moved rarely: what is void is at most half.
    if (this.#void * 2 < this.#entries.length) return;
    this.#entries = this.#entries.slice(this.#void);
    this.#void = 0;
  }
}

function bytesOf(entry: JournalEntry): number {
  if (entry.type === "cleared") return ENTRY_BYTES;
  const names = ENTRY_BYTES + entry.names.byteLength;
  return entry.type === "stored" ? names + entry.bytes.length + entry.ends.byteLength : names;
}
