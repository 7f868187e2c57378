import { Bridge } from "./bridge.ts";
import { CORE_WASM } from "./gen/core-wasm.ts";

/** A worker's record in the core: an address; 0 is none. */
export type CoreWorker = number;

/**
 * The index's core in WebAssembly (wasm/main.ts says what each call does). Arguments that are lists lie in areas of its memory;
 * addresses of areas change when they are made larger. The memory is shared, though no thread shares it: V8 counts other
 * memory as its own and, each time that grows, stops to collect garbage.
 */
interface CoreExports {
  open(seed: number): number;
  area(id: number): number;
  roomOf(id: number): number;
  ensure(id: number, bytes: number): number;
  newWorker(index: number): CoreWorker;
  emptyWorker(worker: CoreWorker): void;
  dropWorker(worker: CoreWorker): void;
  newRoot(): number;
  rootRun(root: number): number;
  runCount(): number;
  usedBytes(): number;
  allow(bytes: number): void;
  needOf(blocks: number): number;
  evictBytes(bytes: number): void;
  evictNow(bytes: number): void;
  takeEvicted(): number;
  tick(blocks: number): void;
  storeBlocks(
    worker: CoreWorker,
    hasParent: boolean,
    root: number,
    count: number,
    tier: number,
    isHashed: boolean,
    stamp: number,
  ): number;
  removeBlocks(worker: CoreWorker, count: number, tiers: number): number;
  markBlocks(worker: CoreWorker, count: number, counted: boolean, stamp: number): void;
  matchPrompt(root: number, length: number, stamp: number): number;
  matchHashed(root: number, count: number, stamp: number): number;
  hide(root: number, length: number, worker: CoreWorker, keep: number, since: number, stamp: number): number;
  hashBytes(at: number, length: number): bigint;
  namesOf(worker: CoreWorker): number;
  namesInTier(worker: CoreWorker, tier: number): number;
  uncountedOf(worker: CoreWorker): number;
  beginSave(worker: CoreWorker): number;
  saveStep(): number;
  savedRoots(): number;
  endSave(): void;
  checkPieces(from: number, to: number, roots: number): number;
  loadPieces(worker: CoreWorker, from: number, to: number, roots: number, stamp: number): void;
  orphansOfLoad(): number;
  droppedOfLoad(): number;
}

/** Areas of the core, by their numbers in wasm/areas.ts. */
export const AREA = { names: 0, bytes: 1, ends: 2, hashes: 3, answers: 4, chunk: 9, roots: 27 } as const;
/** What `storeBlocks()` says besides numbers of blocks. */
export const ORPHANS = -1;
export const ROOM = -2;

const PAGE_BYTES = 65_536;
const FIRST_PAGES = 64;
const MAX_PAGES = 65_536;

let compiled: WebAssembly.Module | undefined;

function module(): WebAssembly.Module {
  compiled ??= new WebAssembly.Module(Uint8Array.from(atob(CORE_WASM), (char) => char.charCodeAt(0)));
  return compiled;
}

/** One instance of the core, with its memory. */
export class Core {
  readonly calls: CoreExports;
  readonly #memory: WebAssembly.Memory;
  #bytes = new Uint8Array();
  #words = new Uint32Array();
  #longs = new BigUint64Array();

  /** @param maxBytes - its memory never grows beyond; 4 MiB are taken at once, and 8 MiB may be however little that is */
  constructor(maxBytes: number, seed: number) {
    const maximum = Math.max(2 * FIRST_PAGES, Math.min(MAX_PAGES, Math.floor(maxBytes / PAGE_BYTES)));
    this.#memory = new WebAssembly.Memory({ initial: FIRST_PAGES, maximum, shared: true });
    const instance = new WebAssembly.Instance(module(), { env: { memory: this.#memory } });
    this.calls = instance.exports as unknown as CoreExports;
    this.calls.open(seed);
  }

  /** A new way into its memory. */
  bridge(): Bridge {
    return new Bridge(this.#memory);
  }

  /** Let the views below have at least the first `end` bytes of the memory, which may have grown. */
  reach(end: number): void {
    if (end <= this.#bytes.length) return;
    const { buffer } = this.#memory;
    this.#bytes = new Uint8Array(buffer);
    this.#words = new Uint32Array(buffer);
    this.#longs = new BigUint64Array(buffer);
  }

  /** The memory as bytes. */
  get bytes(): Uint8Array {
    return this.#bytes;
  }

  get words(): Uint32Array {
    return this.#words;
  }

  /** The memory as 64-bit names and hashes. */
  get longs(): BigUint64Array {
    return this.#longs;
  }

  /** The address of an area with room for so many bytes, its content lost when it had not; 0 when there is no memory. */
  room(id: number, bytes: number): number {
    return this.calls.ensure(id, bytes) === 0 ? 0 : this.area(id, bytes);
  }

  /** The address of an area that has so many bytes. */
  area(id: number, bytes: number): number {
    const at = this.calls.area(id);
    this.reach(at + bytes);
    return at;
  }
}
