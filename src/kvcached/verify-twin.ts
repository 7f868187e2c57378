import type { BlockName, KvEvent, KvEventBatch } from "../core/kv-event.ts";
import { rootKey } from "../core/prefix-knowledge.ts";

interface TokenBlock {
  /** Place in the tree of token ids: the parent's place and the block's ids. */
  readonly place: string;
  held: boolean;
}

/**
 * What an engine's events say, keyed by token ids, as the engine itself keys it: what would be predicted for a prompt whose
 * token ids are known. Tells a miss that comes from tokens (same text, other ids) from one that comes from time.
 */
export class TokenTwin {
  readonly #byName = new Map<BlockName, TokenBlock>();
  /** Place → number of held names there. */
  readonly #held = new Map<string, number>();
  #blockTokens = 0;

  apply(batch: KvEventBatch): void {
    for (const event of batch.events) this.#applyOne(event);
  }

  clear(): void {
    this.#byName.clear();
    this.#held.clear();
  }

  /** Cached tokens of a prompt: the last token is always computed anew. */
  match(root: string, ids: readonly number[]): number {
    const size = this.#blockTokens;
    let place = root;
    let tokens = 0;
    while (size > 0 && tokens + size < ids.length) {
      place = below(place, ids.slice(tokens, tokens + size));
      if ((this.#held.get(place) ?? 0) === 0) break;
      tokens += size;
    }
    return tokens;
  }

  #applyOne(event: KvEvent): void {
    if (event.type === "cleared") this.clear();
    else if (event.type === "removed") for (const name of event.names) this.#hold(name, false);
    else if (event.type === "stored") {
      this.#blockTokens = event.blockTokens;
      const parent =
        event.parent === undefined ? rootKey(event.lora, event.extra) : this.#byName.get(event.parent)?.place;
      let place = parent;
      for (const [i, name] of [...event.names].entries()) {
        if (place === undefined) return;
        place = below(place, event.tokenIds.subarray(i * event.blockTokens, (i + 1) * event.blockTokens));
        this.#hold(name, false);
        this.#byName.set(name, { place, held: false });
        this.#hold(name, true);
      }
    }
  }

  #hold(name: BlockName, held: boolean): void {
    const block = this.#byName.get(name);
    if (block === undefined || block.held === held) return;
    block.held = held;
    this.#held.set(block.place, (this.#held.get(block.place) ?? 0) + (held ? 1 : -1));
  }
}

const below = (place: string, ids: Iterable<number>): string => `${place}/${[...ids].join()}`;
