import type { KvNote } from "../wire/kv-note.ts";

/** Notes held while nobody takes them; the oldest go first. */
const MAX_NOTES = 4_096;
const MAX_BYTES = 32 * 1024 * 1024;
/** Notes in one call. */
const BATCH_NOTES = 256;
const BATCH_BYTES = 4 * 1024 * 1024;

/** What is to be told to a kvcached: in order, one call at a time, bounded while it is away. A call that fails is not repeated. */
export class NoteQueue {
  #notes: KvNote[] = [];
  #bytes = 0;
  #dropped = 0;
  #open = false;
  #sending = false;
  readonly #tell: (notes: readonly KvNote[]) => Promise<void>;

  /** @param tell - may reject: the notes are lost then, they are hints */
  constructor(tell: (notes: readonly KvNote[]) => Promise<void>) {
    this.#tell = tell;
  }

  get size(): number {
    return this.#notes.length;
  }

  /** Notes given up so far. */
  get dropped(): number {
    return this.#dropped;
  }

  push(note: KvNote): void {
    this.#notes.push(note);
    this.#bytes += bytesOf(note);
    while (this.#notes.length > MAX_NOTES || this.#bytes > MAX_BYTES) {
      this.#bytes -= bytesOf(this.#notes.shift()!);
      this.#dropped++;
    }
    void this.#send();
  }

  /** From now on there is (or is not) somebody who takes them. */
  setOpen(open: boolean): void {
    this.#open = open;
    void this.#send();
  }

  async #send(): Promise<void> {
    if (this.#sending) return;
    this.#sending = true;
    while (this.#open && this.#notes.length > 0) {
      const batch = this.#batch();
      try {
        await this.#tell(batch);
      } catch {
        // It may have been heard: telling it twice would count it twice.
        this.#dropped += batch.length;
      }
    }
    this.#sending = false;
  }

  #batch(): readonly KvNote[] {
    let count = 0;
    for (let bytes = 0; count < this.#notes.length && count < BATCH_NOTES && bytes < BATCH_BYTES; count++) {
      bytes += bytesOf(this.#notes[count]!);
    }
    const batch = this.#notes.splice(0, count);
    for (const note of batch) this.#bytes -= bytesOf(note);
    return batch;
  }
}

function bytesOf(note: KvNote): number {
  return note.type === "observed"
    ? note.outcome.prompt.length + (note.outcome.answer?.length ?? 0)
    : note.query.prompt.length;
}
