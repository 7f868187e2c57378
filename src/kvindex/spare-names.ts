import { TIER_SHIFT } from "./run-layout.ts";
import type { RunTree } from "./run-tree.ts";

const PLACES = 2 ** TIER_SHIFT;

/**
 * Blocks that a lane holds under more than one name: other tokens can spell the same bytes. Such a block is held until its
 * last name goes. They are rare, so they are counted here and not in the tree.
 */
export class SpareNames {
  /** By lane × 2^28 + place: names besides the first. */
  readonly #counts = new Map<number, number>();

  add(lane: number, place: number): void {
    const key = lane * PLACES + place;
    this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1);
  }

  /** Let one of several names go; false when there was but one, and the block itself must go. */
  use(lane: number, place: number): boolean {
    if (this.#counts.size === 0) return false;
    const key = lane * PLACES + place;
    const count = this.#counts.get(key);
    if (count === undefined) return false;
    if (count > 1) this.#counts.set(key, count - 1);
    else this.#counts.delete(key);
    return true;
  }

  forgetLanes(lanes: Int32Array): void {
    for (const key of this.#counts.keys()) if (lanes.includes(Math.floor(key / PLACES))) this.#counts.delete(key);
  }

  forgetRun(tree: RunTree, run: number): void {
    for (const key of this.#counts.keys()) if (tree.runOf(key % PLACES) === run) this.#counts.delete(key);
  }
}
