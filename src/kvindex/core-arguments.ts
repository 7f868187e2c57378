import type { BlockName } from "../core/kv-event.ts";
import type { Bridge } from "./bridge.ts";
import { AREA, type Core } from "./core.ts";
import type { BlockNames } from "./prefix-index.ts";

/** So short lists are there sooner one by one. */
const FEW = 8;
const FEW_BYTES = 256;

/** Puts the arguments of calls where the core reads them. What has grown large stays: the next call finds room. */
export class CoreArguments {
  readonly #core: Core;
  readonly #bridge: Bridge;
  /** Address and room of each area that is written here, as last seen. */
  readonly #at = new Float64Array(8);
  readonly #room = new Float64Array(8);

  constructor(core: Core) {
    this.#core = core;
    this.#bridge = core.bridge();
  }

  #area(id: number, bytes: number): number {
    if (bytes > this.#room[id]!) {
      this.#at[id] = this.#core.room(id, bytes);
      this.#room[id] = this.#core.calls.roomOf(id);
      this.#core.reach(this.#at[id]! + this.#room[id]!);
      if (this.#at[id] === 0) this.#room[id] = -1;
    }
    return this.#at[id]!;
  }

  /** Forget what is known of the areas: the core may have made them larger itself. */
  forget(): void {
    this.#room.fill(-1);
  }

  /** Names, with a parent's in front. False when there is no memory. */
  putNames(names: BlockNames, parent: BlockName | undefined): boolean {
    const bytes = 8 * (names.length + 1);
    const at = this.#area(AREA.names, bytes);
    if (at === 0) return false;
    if (names.length <= FEW) {
      const to = this.#core.longs;
      if (parent !== undefined) to[at / 8] = parent;
      for (let i = 0; i < names.length; i++) to[at / 8 + 1 + i] = names[i]!;
      return true;
    }
    this.#bridge.room(bytes);
    const to = this.#bridge.longs;
    if (parent !== undefined) to[0] = parent;
    if (names instanceof BigUint64Array) to.set(names, 1);
    else for (let i = 0; i < names.length; i++) to[1 + i] = names[i]!;
    this.#bridge.send(at, bytes);
    return true;
  }

  /** Bytes of a prompt or of blocks. */
  putBytes(bytes: Uint8Array): boolean {
    const at = this.#area(AREA.bytes, bytes.length);
    if (at === 0 && bytes.length > 0) return false;
    if (bytes.length <= FEW_BYTES) {
      this.#core.bytes.set(bytes, at);
      return true;
    }
    this.#bridge.room(bytes.length);
    this.#bridge.bytes.set(bytes);
    this.#bridge.send(at, bytes.length);
    return true;
  }

  /** Where `count` blocks end. */
  putEnds(ends: Uint32Array, count: number): boolean {
    const at = this.#area(AREA.ends, 4 * count);
    if (at === 0 && count > 0) return false;
    if (count <= FEW) {
      const { words } = this.#core;
      for (let i = 0; i < count; i++) words[at / 4 + i] = ends[i]!;
      return true;
    }
    this.#bridge.room(4 * count);
    this.#bridge.words.set(count === ends.length ? ends : ends.subarray(0, count));
    this.#bridge.send(at, 4 * count);
    return true;
  }

  /** Hashes of blocks. The core makes this area larger too: its address is never known beforehand. */
  putHashes(hashes: BigUint64Array): boolean {
    const at = this.#core.room(AREA.hashes, 8 * hashes.length);
    if (at === 0 && hashes.length > 0) return false;
    if (hashes.length <= FEW) {
      const to = this.#core.longs;
      for (let i = 0; i < hashes.length; i++) to[at / 8 + i] = hashes[i]!;
      return true;
    }
    this.#bridge.room(8 * hashes.length);
    this.#bridge.longs.set(hashes);
    this.#bridge.send(at, 8 * hashes.length);
    return true;
  }
}
