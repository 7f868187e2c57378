import type { WorkerId } from "../core/ids.ts";
import type { BlockNames, Tier } from "../core/kv-event.ts";
import type { EventSink } from "../kvindex/apply-events.ts";
import type { PrefixIndex, RecordedPrompt, StoredBlocks, WorkerOptions, WorkerSlot } from "../kvindex/prefix-index.ts";

/** A worker of the index. */
export interface ChangedWorker {
  readonly id: WorkerId;
  readonly slot: WorkerSlot;
}

/**
 * What became of the index, told after it is so. Arrays of bytes, ends and token ids are good until the listener returns:
 * whoever keeps them copies them.
 */
export type AppliedChange =
  | { readonly type: "added"; readonly options: WorkerOptions }
  /** A chain was placed. `tokenIds`: [names × blockTokens]. */
  | { readonly type: "stored"; readonly blocks: StoredBlocks; readonly tokenIds: Uint32Array }
  /** `tier` undefined: from all tiers. */
  | { readonly type: "removed"; readonly names: BlockNames; readonly tier: Tier | undefined }
  /** All that the worker held is gone, history too; it goes on. */
  | { readonly type: "cleared" }
  | { readonly type: "dropped" }
  | { readonly type: "recorded"; readonly prompt: RecordedPrompt }
  /** Beyond `tokens` nothing on this prompt's path counts until it is stored anew. */
  | {
      readonly type: "corrected";
      readonly root: string;
      readonly prompt: Uint8Array;
      readonly tokens: number;
      /** The index's clock; what was stored after it was left alone. */
      readonly since: number | undefined;
    }
  /** Blocks that do not count, or do again. */
  | { readonly type: "counted"; readonly names: BlockNames; readonly counted: boolean };

export type AppliedListener = (worker: ChangedWorker, change: AppliedChange) => void;

/**
 * The one way by which what is learnt of workers gets into an index, with listeners that hear of each change in its order
 * (canonicity, watchers). Without listeners it costs one comparison a call.
 */
export class AppliedIndex implements EventSink {
  readonly index: PrefixIndex;
  #listeners: readonly AppliedListener[] = [];

  constructor(index: PrefixIndex) {
    this.index = index;
  }

  /** Hear of all changes from now on; the result ends it. */
  onApplied(listener: AppliedListener): () => void {
    this.#listeners = [...this.#listeners, listener];
    return () => {
      this.#listeners = this.#listeners.filter((each) => each !== listener);
    };
  }

  addWorker(id: WorkerId, options: WorkerOptions = {}): WorkerSlot {
    const slot = this.index.addWorker(id, options);
    if (this.#listeners.length > 0) this.#tell({ id, slot }, { type: "added", options });
    return slot;
  }

  dropWorker(slot: WorkerSlot): void {
    const id = this.index.workerOf(slot);
    this.index.dropWorker(slot);
    if (this.#listeners.length > 0 && id !== undefined) this.#tell({ id, slot }, { type: "dropped" });
  }

  clearWorker(slot: WorkerSlot): void {
    this.index.clearWorker(slot);
    if (this.#listeners.length > 0) this.#tellOf(slot, { type: "cleared" });
  }

  store(slot: WorkerSlot, blocks: StoredBlocks, tokenIds: Uint32Array): boolean {
    const placed = this.index.store(slot, blocks);
    if (placed && this.#listeners.length > 0) this.#tellOf(slot, { type: "stored", blocks, tokenIds });
    return placed;
  }

  remove(slot: WorkerSlot, names: BlockNames, tier?: Tier): void {
    this.index.remove(slot, names, tier);
    if (this.#listeners.length > 0) this.#tellOf(slot, { type: "removed", names, tier });
  }

  record(slot: WorkerSlot, prompt: RecordedPrompt): void {
    this.index.record(slot, prompt);
    if (this.#listeners.length > 0) this.#tellOf(slot, { type: "recorded", prompt });
  }

  correct(slot: WorkerSlot, root: string, prompt: Uint8Array, tokens: number, since?: number): boolean {
    const cut = this.index.correct(slot, root, prompt, tokens, since);
    if (cut && this.#listeners.length > 0) this.#tellOf(slot, { type: "corrected", root, prompt, tokens, since });
    return cut;
  }

  setCounted(slot: WorkerSlot, names: BlockNames, counted: boolean): void {
    this.index.setCounted(slot, names, counted);
    if (this.#listeners.length > 0) this.#tellOf(slot, { type: "counted", names, counted });
  }

  #tellOf(slot: WorkerSlot, change: AppliedChange): void {
    const id = this.index.workerOf(slot);
    if (id !== undefined) this.#tell({ id, slot }, change);
  }

  #tell(worker: ChangedWorker, change: AppliedChange): void {
    for (const listener of this.#listeners) listener(worker, change);
  }
}
