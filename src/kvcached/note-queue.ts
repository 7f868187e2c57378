import type { KvNote } from "../wire/kv-note.ts";

/** Notes held while nobody takes them; the oldest go first. */
const MAX_NOTES = 4_096;
const MAX_BYTES = 32 * 1024 * 1024;
/** Notes in one call. */
const BATCH_NOTES = 256;
const BATCH_BYTES = 4 * 1024 * 1024;

/**
 * What is to be told to a kvcached: in order, one call at a time, bounded while it is away.
 *
 * A call that failed may have been heard, and telling it twice would count it twice. So its notes are set aside until it is known
 * who is there: another run of kvcached has not heard them and is told; the same run is not.
 */
export class NoteQueue {
  #notes: KvNote[] = [];
  /** Of calls that failed, told to the run `#instance`; before all that is in `#notes`. */
  #doubtful: KvNote[] = [];
  #bytes = 0;
  #underWay = 0;
  #dropped = 0;
  #open = false;
  #sending = false;
  #instance = "";
  readonly #tell: (notes: readonly KvNote[]) => Promise<void>;

  /** @param tell - may reject: it is not known then whether the notes were heard */
  constructor(tell: (notes: readonly KvNote[]) => Promise<void>) {
    this.#tell = tell;
  }

  /** Notes that nobody is known to have heard, those on their way included. */
  get size(): number {
    return this.#waiting + this.#underWay;
  }

  get #waiting(): number {
    return this.#notes.length + this.#doubtful.length;
  }

  /** Notes given up so far. */
  get dropped(): number {
    return this.#dropped;
  }

  push(note: KvNote): void {
    this.#notes.push(note);
    this.#bytes += bytesOf(note);
    this.#bound();
    void this.#send();
  }

  /** This run of kvcached takes them from now on. */
  opened(instance: string): void {
    const doubtful = this.#doubtful;
    this.#doubtful = [];
    if (instance === this.#instance) this.#drop(doubtful);
    else this.#notes = [...doubtful, ...this.#notes];
    this.#instance = instance;
    this.#open = true;
    void this.#send();
  }

  /** Nobody takes them. */
  closed(): void {
    this.#open = false;
  }

  async #send(): Promise<void> {
    if (this.#sending) return;
    this.#sending = true;
    while (this.#open && this.#notes.length > 0) {
      const batch = this.#batch();
      const to = this.#instance;
      this.#underWay = batch.length;
      try {
        await this.#tell(batch);
        this.#forget(batch);
      } catch {
        // The run that was asked may have ended meanwhile, and another be there.
        if (to === this.#instance) this.#doubtful.push(...batch);
        else this.#notes.unshift(...batch);
        this.#bound();
      } finally {
        this.#underWay = 0;
      }
    }
    this.#sending = false;
  }

  #batch(): readonly KvNote[] {
    let count = 0;
    for (let bytes = 0; count < this.#notes.length && count < BATCH_NOTES && bytes < BATCH_BYTES; count++) {
      bytes += bytesOf(this.#notes[count]!);
    }
    return this.#notes.splice(0, count);
  }

  /** The oldest go first. */
  #bound(): void {
    while (this.#waiting > MAX_NOTES || this.#bytes > MAX_BYTES) {
      const oldest = this.#doubtful.shift() ?? this.#notes.shift();
      if (oldest === undefined) return;
      this.#drop([oldest]);
    }
  }

  #drop(notes: readonly KvNote[]): void {
    this.#forget(notes);
    this.#dropped += notes.length;
  }

  /** They do not wait any more. */
  #forget(notes: readonly KvNote[]): void {
    for (const note of notes) this.#bytes -= bytesOf(note);
  }
}

function bytesOf(note: KvNote): number {
  return note.type === "observed"
    ? note.outcome.prompt.length + (note.outcome.answer?.length ?? 0)
    : note.query.prompt.length;
}
