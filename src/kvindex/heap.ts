/** Bytes of one unit, the heap's grain. A block's record is one unit. */
export const UNIT_BYTES = 16;
/** 32-bit words of one unit. */
export const UNIT_WORDS = 4;

/** In the last word of a free range's first and last unit. No record in use may hold it there. */
const FREE = 0xffffffff;
/** Ranges of up to this many units have a list for each size; longer ones share a list for each power of two. */
const EXACT = 64;
const LISTS = EXACT + 1 + 32;
/** How many ranges of a shared list are tried before the next list. */
const TRIES = 8;
const PAGE_BYTES = 65_536;
const MAX_PAGES = 65_536;
/** Pages added at once: fewer calls, and the copy-free growth of WebAssembly memory makes each cheap. */
const GROW_PAGES = 64;

/**
 * All records of an index in one WebAssembly memory: block records, runs, lists of holders. It grows without copying
 * (engines reserve the address space), so growth makes no pause; freed ranges join their free neighbours and are used again.
 *
 * A place is a unit number; 0 is none. Free ranges carry their length and list links inside themselves:
 *
 *     first unit: [units, next, previous, FREE]   …   last unit: [units, -, -, FREE]
 *
 * Any part of an allocated range may be freed alone.
 */
export class Heap {
  readonly memory: WebAssembly.Memory;
  /** The whole memory as words. Replaced when it grows: read anew after each `alloc()`. */
  words: Uint32Array;
  /** The same as bytes. */
  bytes: Uint8Array;
  /** Units in use. */
  used = 0;
  readonly #lists = new Uint32Array(LISTS);
  /** First unit never used yet. */
  #top = 1;

  /** @param maxBytes - never grow beyond; 4 MiB are taken at once, and 8 MiB may be however little that is */
  constructor(maxBytes: number) {
    const maximum = Math.max(2 * GROW_PAGES, Math.min(MAX_PAGES, Math.floor(maxBytes / PAGE_BYTES)));
    this.memory = new WebAssembly.Memory({ initial: GROW_PAGES, maximum });
    this.words = new Uint32Array(this.memory.buffer);
    this.bytes = new Uint8Array(this.memory.buffer);
  }

  /** A range of `units` units, its content undefined but for the marks; 0 when there is no room. */
  alloc(units: number): number {
    const at = this.#reuse(units) || this.#extend(units);
    if (at !== 0) this.used += units;
    return at;
  }

  /** Give back a range, or any part of one. */
  free(at: number, units: number): void {
    if (units === 0) return;
    this.used -= units;
    const w = this.words;
    let end = at + units;
    // Marks that come to lie inside a joined range are wiped: a part of it may be handed out with them in its middle.
    if (w[4 * at - 1] === FREE) {
      const before = at - w[4 * (at - 1)]!;
      w[4 * at - 1] = 0;
      this.#unlink(before, at - before);
      at = before;
    }
    if (end < this.#top && w[4 * end + 3] === FREE) {
      const size = w[4 * end]!;
      this.#unlink(end, size);
      w[4 * end + 3] = 0;
      end += size;
    }
    this.#link(at, end - at);
  }

  #reuse(units: number): number {
    for (let list = listOf(units); list < LISTS; list++) {
      let at = this.#lists[list]!;
      for (let tries = 0; at !== 0 && tries < TRIES; tries++) {
        if (this.words[4 * at]! >= units) return this.#take(at, units);
        at = this.words[4 * at + 1]!;
      }
    }
    return 0;
  }

  #take(at: number, units: number): number {
    const w = this.words;
    const size = w[4 * at]!;
    this.#unlink(at, size);
    w[4 * at + 3] = 0;
    w[4 * (at + size) - 1] = 0;
    if (size > units) this.#link(at + units, size - units);
    return at;
  }

  #extend(units: number): number {
    const end = this.#top + units;
    if (end * UNIT_WORDS > this.words.length && !this.#grow(end * UNIT_BYTES)) return 0;
    const at = this.#top;
    this.#top = end;
    return at;
  }

  #grow(neededBytes: number): boolean {
    const missing = Math.ceil((neededBytes - this.bytes.length) / PAGE_BYTES);
    if (!this.#tryGrow(Math.max(missing, GROW_PAGES)) && !this.#tryGrow(missing)) return false;
    this.words = new Uint32Array(this.memory.buffer);
    this.bytes = new Uint8Array(this.memory.buffer);
    return true;
  }

  #tryGrow(pages: number): boolean {
    try {
      this.memory.grow(pages);
      return true;
    } catch {
      return false; // RangeError at the maximum
    }
  }

  #link(at: number, size: number): void {
    const w = this.words;
    const list = listOf(size);
    const next = this.#lists[list]!;
    this.#lists[list] = at;
    if (next !== 0) w[4 * next + 2] = at;
    w[4 * (at + size - 1)] = size;
    w[4 * (at + size) - 1] = FREE;
    w[4 * at] = size;
    w[4 * at + 1] = next;
    w[4 * at + 2] = 0;
    w[4 * at + 3] = FREE;
  }

  #unlink(at: number, size: number): void {
    const w = this.words;
    const next = w[4 * at + 1]!;
    const previous = w[4 * at + 2]!;
    if (next !== 0) w[4 * next + 2] = previous;
    if (previous !== 0) w[4 * previous + 1] = next;
    else this.#lists[listOf(size)] = next;
  }
}

/** Exact lists by size, then one a power of two. */
function listOf(units: number): number {
  return units <= EXACT ? units : EXACT + (32 - Math.clz32(units - 1)) - 6;
}
