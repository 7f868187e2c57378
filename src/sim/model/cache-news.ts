import type { BlockName, CacheEvent } from "./cache-event.ts";
import type { BlockKey } from "./request.ts";
import { extraKeys, type Sequence } from "./sequence.ts";

/** What a cache has gained and lost since it was last asked: events of sequences with tokens, keys of those without. */
export class CacheNews {
  #events: CacheEvent[] = [];
  /** By key: is it there now? */
  #changes = new Map<BlockKey, boolean>();
  readonly #keys: boolean;

  /** @param keys tell of keyed sequences; else their news are dropped */
  constructor(keys: boolean) {
    this.#keys = keys;
  }

  /** A block is lost. @param last no other one has the name: engines tell of each, keys of the last */
  removed(name: BlockName, last: boolean): void {
    if (typeof name === "string") this.#events.push({ type: "removed", name });
    else if (this.#keys && last) this.#changes.set(name, false);
  }

  cleared(): void {
    this.#events.push({ type: "cleared" });
  }

  /** Blocks `first` to `end - 1` of a sequence are stored. */
  stored(sequence: Sequence, first: number, end: number, blockTokens: number): void {
    const { keys, tokens, names } = sequence;
    if (tokens === undefined) {
      if (this.#keys) for (let i = first; i < end; i++) this.#changes.set(keys![i]!, true);
      return;
    }
    this.#events.push({
      type: "stored",
      names: names.slice(first, end) as string[],
      parent: names[first - 1] as string | undefined,
      tokenIds: tokens.slice(first * blockTokens, end * blockTokens),
      extra: Array.from({ length: end - first }, (_, i) => extraKeys(sequence, first + i)),
    });
  }

  takeEvents(): readonly CacheEvent[] {
    const events = this.#events;
    if (events.length > 0) this.#events = [];
    return events;
  }

  takeKeys(): { readonly stored: readonly BlockKey[]; readonly removed: readonly BlockKey[] } | undefined {
    if (this.#changes.size === 0) return undefined;
    const stored: BlockKey[] = [];
    const removed: BlockKey[] = [];
    for (const [key, there] of this.#changes) (there ? stored : removed).push(key);
    this.#changes = new Map();
    return { stored, removed };
  }
}
