import type { TierLimits } from "../model/limits.ts";
import type { BlockKey } from "../model/request.ts";
import { TierStore } from "../model/tier-store.ts";

/** What an engine holds more and less, in any tier. */
export interface HeldNews {
  readonly stored: readonly BlockKey[];
  readonly removed: readonly BlockKey[];
}

/**
 * What lies in the tiers of one engine, followed from its device's news as the engine itself fills them: a block is written to the
 * first tier when it is computed, what a tier loses goes to the next. Engines that publish events of their tiers say the same.
 */
export class TierMirror {
  readonly #device = new Set<BlockKey>();
  readonly #tiers: readonly TierStore[];

  constructor(tiers: readonly TierLimits[]) {
    this.#tiers = tiers.map(({ blocks }) => new TierStore(blocks));
  }

  /** Take the device's news. @returns what changed for device and tiers together */
  take({ stored, removed }: HeldNews): HeldNews {
    const lost = new Set<BlockKey>(removed);
    for (const key of removed) this.#device.delete(key);
    for (const key of stored) {
      this.#device.add(key);
      for (const key2 of this.#put(key)) lost.add(key2);
    }
    const gone = [...lost].filter((key) => !this.#device.has(key) && !this.#tiers.some((tier) => tier.has(key)));
    return { stored, removed: gone };
  }

  /** A request found these blocks: they are lost last. */
  used(blocks: readonly BlockKey[], count: number): void {
    for (let i = 0; i < count && i < blocks.length; i++) for (const tier of this.#tiers) tier.touch(blocks[i]!);
  }

  /** Of leading blocks that are held, how many lie on the device. */
  onDevice(blocks: readonly BlockKey[], count: number): number {
    let depth = 0;
    while (depth < count && this.#device.has(blocks[depth]!)) depth++;
    return depth;
  }

  /** @returns what falls out of the last tier */
  #put(key: BlockKey): readonly BlockKey[] {
    let falling: BlockKey | undefined = key;
    for (const tier of this.#tiers) {
      if (falling === undefined) return [];
      falling = tier.put(falling) as BlockKey | undefined;
    }
    return falling === undefined ? [] : [falling];
  }
}
