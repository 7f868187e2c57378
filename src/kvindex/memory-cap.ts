import type { Core } from "./core.ts";
import type { History } from "./history.ts";
import type { RootTable } from "./root-table.ts";

/** Eviction begins at this share of the cap and frees this share, so that the cap itself is hardly ever met. */
const HIGH_SHARE = 0.9;
const EVICT_SHARE = 0.05;
/** Prompts without events have at most this share while blocks are evicted. */
const HISTORY_SHARE = 0.25;

/** Keeps an index below its cap: what is least useful goes first. */
export class MemoryCap {
  readonly #core: Core;
  readonly #roots: RootTable;
  readonly #history: History;
  readonly #capBytes: number;
  #evicted = 0;

  constructor(core: Core, roots: RootTable, history: History, capBytes: number) {
    this.#core = core;
    this.#roots = roots;
    this.#history = history;
    this.#capBytes = capBytes;
  }

  /** Memory in use, in bytes. */
  usedBytes(): number {
    return this.#core.calls.usedBytes() + this.#roots.bytes + this.#history.bytes;
  }

  /** Blocks that went to make room. */
  get evictedBlocks(): number {
    this.#evicted += this.#core.calls.takeEvicted();
    return this.#evicted;
  }

  /** Make sure that so many bytes more may be used. False when the cap does not allow it, whatever is evicted. */
  makeRoom(bytes: number): boolean {
    const high = this.#capBytes * HIGH_SHARE;
    let used = this.usedBytes();
    if (used + bytes >= high) {
      this.#shrink(bytes, Math.max(0, Math.min(this.#capBytes * (HIGH_SHARE - EVICT_SHARE), high - bytes)));
      used = this.usedBytes();
    }
    const fits = used + bytes < this.#capBytes;
    this.#core.calls.allow(fits ? Math.max(bytes, high - used) : 0);
    return fits;
  }

  /** Evict down to `target`, at once only as far as `bytes` more would not fit below the cap. */
  #shrink(bytes: number, target: number): void {
    const fits = () => this.usedBytes() + bytes < this.#capBytes;
    while (this.#history.bytes > this.#capBytes * HISTORY_SHARE && this.#history.evictOldest());
    this.#core.calls.evictBytes(this.usedBytes() - target);
    if (!fits()) this.#core.calls.evictNow(this.usedBytes() - target);
    while (!fits() && this.#history.evictOldest());
  }
}
