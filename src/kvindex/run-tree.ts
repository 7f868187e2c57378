import type { Heap } from "./heap.ts";
import { FLAG_DEAD, FLAG_ROOT, LENGTH, NO_LIMIT, RUN, RUN_UNITS } from "./run-layout.ts";
import { U64Map } from "./u64-map.ts";

/** Which lanes count: a lane of a worker that is gone does not. */
export interface LaneTable {
  isLive(lane: number): boolean;
}

/**
 * The tree of runs: making, joining, splitting and freeing them, and who covers what. It knows no workers, names or bytes.
 * Memory may move its views at any allocation, so views are read anew after one.
 */
export class RunTree {
  readonly heap: Heap;
  /** Children of all runs, by parent and first block. */
  readonly #children = new U64Map();
  readonly #roots = new Map<string, number>();
  readonly #rootKeys = new Map<number, string>();
  readonly #lanes: LaneTable;
  /** All runs but roots and dead ones, in no order. */
  #runs = new Uint32Array(64);
  #count = 0;

  constructor(heap: Heap, lanes: LaneTable) {
    this.heap = heap;
    this.#lanes = lanes;
  }

  get runCount(): number {
    return this.#count;
  }

  /** Memory in bytes besides the heap's. */
  get bytes(): number {
    return this.#children.bytes + this.#runs.byteLength + this.#roots.size * 200;
  }

  runAt(index: number): number {
    return this.#runs[index]!;
  }

  /** The run that a block belongs to. */
  runOf(place: number): number {
    return this.heap.words[4 * place + 3]!;
  }

  /** Blocks from a place on to the end of its run. */
  blocksFrom(place: number): number {
    const w = this.heap.words;
    const run = w[4 * place + 3]!;
    return w[4 * run + RUN.blocks]! + w[4 * run + RUN.length]! - place;
  }

  isDead(run: number): boolean {
    return (this.heap.words[4 * run + RUN.flags]! & FLAG_DEAD) !== 0;
  }

  /** The root of that key, 0 when there is none. */
  root(key: string): number {
    return this.#roots.get(key) ?? 0;
  }

  /** The root of that key, made when missing; 0 when there is no memory. */
  ensureRoot(key: string): number {
    const known = this.#roots.get(key);
    if (known !== undefined) return known;
    const run = this.#newRecord(0, 0, 0, 0, FLAG_ROOT);
    if (run === 0) return 0;
    this.#roots.set(key, run);
    this.#rootKeys.set(run, key);
    return run;
  }

  /** Make a run of `length` blocks in [blocks, blocks + room) that nothing leads to yet; 0 when there is no memory. */
  newRun(blocks: number, length: number, room: number, parent: number): number {
    const run = this.#newRecord(blocks, length, room, parent, 0);
    if (run === 0) return 0;
    if (this.#count === this.#runs.length) {
      const runs = new Uint32Array(2 * this.#count);
      runs.set(this.#runs);
      this.#runs = runs;
    }
    this.heap.words[4 * run + RUN.index] = this.#count;
    this.#runs[this.#count++] = run;
    return run;
  }

  #newRecord(blocks: number, length: number, room: number, parent: number, flags: number): number {
    const run = this.heap.alloc(RUN_UNITS);
    if (run === 0) return 0;
    const w = this.heap.words;
    for (let word = 4 * run; word < 4 * (run + RUN_UNITS); word++) w[word] = 0; // fill() costs more than twelve writes
    w[4 * run + RUN.blocks] = blocks;
    w[4 * run + RUN.length] = length;
    w[4 * run + RUN.room] = room;
    w[4 * run + RUN.parent] = parent;
    w[4 * run + RUN.flags] = flags;
    return run;
  }

  /** The child of `run` that begins with a block like the record at `block`; 0 when there is none. */
  findChild(run: number, block: number): number {
    const w = this.heap.words;
    const child = this.#children.get(keyLow(w, run, block), keyHigh(w, run, block));
    // 64 bits can meet by chance: then the other one is not it.
    return child !== 0 && w[4 * child + RUN.parent] === run && sameBlock(w, w[4 * child + RUN.blocks]!, block)
      ? child
      : 0;
  }

  /** Make `child` (its first block written) a child of its parent. False, and nothing done, when there is no memory. */
  attach(child: number): boolean {
    const parent = this.heap.words[4 * child + RUN.parent]!;
    const first = this.heap.words[4 * child + RUN.blocks]!;
    if (this.#children.get(keyLow(this.heap.words, parent, first), keyHigh(this.heap.words, parent, first)) !== 0)
      return false;
    if (!this.#countLength(parent, this.heap.words[4 * first + 2]!)) return false;
    const w = this.heap.words;
    this.#children.set(keyLow(w, parent, first), keyHigh(w, parent, first), child);
    w[4 * parent + RUN.children]!++;
    this.#giveBackRoom(parent);
    return true;
  }

  #countLength(run: number, bytes: number): boolean {
    let w = this.heap.words;
    for (let at = w[4 * run + RUN.lengths]!; at !== 0; at = w[4 * at + LENGTH.next]!) {
      if (w[4 * at + LENGTH.bytes] !== bytes) continue;
      w[4 * at + LENGTH.count]!++;
      return true;
    }
    const at = this.heap.alloc(1);
    if (at === 0) return false;
    w = this.heap.words;
    w[4 * at + LENGTH.bytes] = bytes;
    w[4 * at + LENGTH.count] = 1;
    w[4 * at + LENGTH.next] = w[4 * run + RUN.lengths]!;
    w[4 * at + 3] = 0;
    w[4 * run + RUN.lengths] = at;
    return true;
  }

  #detach(child: number): void {
    const w = this.heap.words;
    const parent = w[4 * child + RUN.parent]!;
    const first = w[4 * child + RUN.blocks]!;
    this.#children.delete(keyLow(w, parent, first), keyHigh(w, parent, first));
    w[4 * parent + RUN.children]!--;
    let link = 4 * parent + RUN.lengths;
    while (w[4 * w[link]! + LENGTH.bytes] !== w[4 * first + 2]) link = 4 * w[link]! + LENGTH.next;
    const at = w[link]!;
    if (--w[4 * at + LENGTH.count]! > 0) return;
    w[link] = w[4 * at + LENGTH.next]!;
    this.heap.free(at, 1);
  }

  /** A run with children ends where it ends: what it has room for beyond is given back. */
  #giveBackRoom(run: number): void {
    const w = this.heap.words;
    const length = w[4 * run + RUN.length]!;
    const room = w[4 * run + RUN.room]!;
    w[4 * run + RUN.room] = length;
    this.heap.free(w[4 * run + RUN.blocks]! + length, room - length);
  }

  /**
   * Cut a run before its block `at` (0 < at < length). The front becomes a new run, which is returned; the rest keeps the
   * number, so its children need no change. Places stay. 0, and nothing done, when there is no memory.
   */
  split(run: number, at: number): number {
    let w = this.heap.words;
    const blocks = w[4 * run + RUN.blocks]!;
    const parent = w[4 * run + RUN.parent]!;
    const front = this.newRun(blocks, at, at, parent);
    if (front === 0) return 0;
    const length = this.heap.alloc(1);
    const covers = this.#copyCovers(run, front);
    if (length === 0 || !covers) {
      if (length !== 0) this.heap.free(length, 1);
      this.#freeRecord(front);
      return 0;
    }
    w = this.heap.words;
    for (let place = blocks; place < blocks + at; place++) w[4 * place + 3] = front;
    w[4 * run + RUN.blocks] = blocks + at;
    w[4 * run + RUN.length]! -= at;
    w[4 * run + RUN.room]! -= at;
    w[4 * run + RUN.parent] = front;
    w[4 * front + RUN.touched] = w[4 * run + RUN.touched]!;
    w[4 * front + RUN.children] = 1;
    w[4 * front + RUN.lengths] = length;
    w[4 * length + LENGTH.bytes] = w[4 * (blocks + at) + 2]!;
    w[4 * length + LENGTH.count] = 1;
    w[4 * length + LENGTH.next] = 0;
    w[4 * length + 3] = 0;
    this.#children.set(keyLow(w, parent, blocks), keyHigh(w, parent, blocks), front);
    this.#children.set(keyLow(w, front, blocks + at), keyHigh(w, front, blocks + at), run);
    this.#cutCovers(front, 0, at);
    this.#cutCovers(run, at, MAX_CUT);
    return front;
  }

  /** Undo `newRun()`: nothing leads to the run yet. Its blocks' memory goes too. */
  discard(run: number): void {
    const w = this.heap.words;
    this.heap.free(w[4 * run + RUN.blocks]!, w[4 * run + RUN.room]!);
    this.#freeRecord(run);
  }

  #copyCovers(from: number, to: number): boolean {
    const count = this.heap.words[4 * from + RUN.coverCount]!;
    if (count === 0) return true;
    const covers = this.heap.alloc(count);
    if (covers === 0) return false;
    const w = this.heap.words;
    const source = w[4 * from + RUN.covers]!;
    w.copyWithin(4 * covers, 4 * source, 4 * (source + count));
    w[4 * to + RUN.covers] = covers;
    w[4 * to + RUN.coverCount] = count;
    w[4 * to + RUN.coverRoom] = count;
    return true;
  }

  /** Narrow all covers of a run to its blocks [start, end) as they were numbered before, and count them from 0. */
  #cutCovers(run: number, start: number, end: number): void {
    const w = this.heap.words;
    for (let i = w[4 * run + RUN.coverCount]! - 1; i >= 0; i--) {
      const cover = 4 * (w[4 * run + RUN.covers]! + i);
      const from = Math.max(w[cover + 1]! & 0xffff, start) - start;
      const to = Math.min(w[cover + 1]! >>> 16, end) - start;
      if (to <= from || !this.#lanes.isLive(w[cover]!)) {
        this.dropCover(run, i);
        continue;
      }
      const limit = w[cover + 2]!;
      w[cover + 1] = from | (to << 16);
      w[cover + 2] = limit === NO_LIMIT || limit - start >= to ? NO_LIMIT : Math.max(limit - start, 0);
    }
  }

  /** The word index of a lane's cover of a run, brought to the front; -1 when it has none. */
  findCover(run: number, lane: number): number {
    const w = this.heap.words;
    const covers = w[4 * run + RUN.covers]!;
    const end = 4 * (covers + w[4 * run + RUN.coverCount]!);
    const front = 4 * covers;
    for (let at = front; at < end; at += 4) {
      if (w[at] !== lane) continue;
      for (let i = 0; at !== front && i < 4; i++) {
        const word = w[front + i]!;
        w[front + i] = w[at + i]!;
        w[at + i] = word;
      }
      return front;
    }
    return -1;
  }

  /** Add a cover; false when there is no memory. */
  addCover(run: number, lane: number, from: number, to: number, stamp: number): boolean {
    const count = this.heap.words[4 * run + RUN.coverCount]!;
    if (count === this.heap.words[4 * run + RUN.coverRoom] && !this.#growCovers(run, count)) return false;
    const w = this.heap.words;
    const cover = 4 * (w[4 * run + RUN.covers]! + count);
    w[cover] = lane;
    w[cover + 1] = from | (to << 16);
    w[cover + 2] = NO_LIMIT;
    w[cover + 3] = stamp;
    w[4 * run + RUN.coverCount] = count + 1;
    return true;
  }

  #growCovers(run: number, count: number): boolean {
    const room = count === 0 ? 1 : 2 * count;
    const covers = this.heap.alloc(room);
    if (covers === 0) return false;
    const w = this.heap.words;
    const old = w[4 * run + RUN.covers]!;
    w.copyWithin(4 * covers, 4 * old, 4 * (old + count));
    // Room not used yet must not look like a free range.
    for (let i = count; i < room; i++) w[4 * (covers + i) + 3] = 0;
    this.heap.free(old, count);
    w[4 * run + RUN.covers] = covers;
    w[4 * run + RUN.coverRoom] = room;
    return true;
  }

  /** Drop the cover number `index` of a run. */
  dropCover(run: number, index: number): void {
    const w = this.heap.words;
    const covers = w[4 * run + RUN.covers]!;
    const last = --w[4 * run + RUN.coverCount]!;
    if (index !== last) w.copyWithin(4 * (covers + index), 4 * (covers + last), 4 * (covers + last + 1));
  }

  /**
   * After covers or children went: let go of what nobody holds. A run without children ends with the last block that is
   * covered; one that is empty goes, and so may its parents.
   */
  trim(run: number): void {
    const w = this.heap.words;
    while (w[4 * run + RUN.children] === 0) {
      if ((w[4 * run + RUN.flags]! & FLAG_ROOT) !== 0) {
        this.#roots.delete(this.#rootKeys.get(run)!);
        this.#rootKeys.delete(run);
        this.heap.free(run, RUN_UNITS);
        return;
      }
      let length = 0;
      const covers = w[4 * run + RUN.covers]!;
      for (let i = w[4 * run + RUN.coverCount]! - 1; i >= 0; i--) {
        length = Math.max(length, w[4 * (covers + i) + 1]! >>> 16);
      }
      if (length > 0) {
        w[4 * run + RUN.length] = length;
        if (w[4 * run + RUN.room]! - length >= MAX_IDLE_ROOM) this.#giveBackRoom(run);
        return;
      }
      const parent = w[4 * run + RUN.parent]!;
      this.#detach(run);
      this.heap.free(w[4 * run + RUN.blocks]!, w[4 * run + RUN.room]!);
      this.#freeRecord(run);
      run = parent;
    }
  }

  /** Take a run without children out of the tree. It keeps its blocks until `bury()`, for names still lead to them. */
  kill(run: number): void {
    const w = this.heap.words;
    const parent = w[4 * run + RUN.parent]!;
    this.#detach(run);
    this.#unlist(run);
    this.heap.free(w[4 * run + RUN.covers]!, w[4 * run + RUN.coverRoom]!);
    w[4 * run + RUN.coverCount] = 0;
    w[4 * run + RUN.coverRoom] = 0;
    w[4 * run + RUN.flags]! |= FLAG_DEAD;
    this.trim(parent);
  }

  /** Free a dead run that no name leads to any longer. */
  bury(run: number): void {
    const w = this.heap.words;
    this.heap.free(w[4 * run + RUN.blocks]!, w[4 * run + RUN.room]!);
    this.heap.free(run, RUN_UNITS);
  }

  /** Drop the covers of lanes that are gone; true when the run itself went with them. */
  dropDeadCovers(run: number): boolean {
    const w = this.heap.words;
    const before = w[4 * run + RUN.coverCount]!;
    for (let i = before - 1; i >= 0; i--) {
      if (!this.#lanes.isLive(w[4 * (w[4 * run + RUN.covers]! + i)]!)) this.dropCover(run, i);
    }
    if (w[4 * run + RUN.coverCount] === before) return false;
    const count = this.#count;
    this.trim(run);
    return this.#count < count;
  }

  #freeRecord(run: number): void {
    this.#unlist(run);
    const w = this.heap.words;
    this.heap.free(w[4 * run + RUN.covers]!, w[4 * run + RUN.coverRoom]!);
    this.heap.free(run, RUN_UNITS);
  }

  #unlist(run: number): void {
    const w = this.heap.words;
    const index = w[4 * run + RUN.index]!;
    const last = this.#runs[--this.#count]!;
    this.#runs[index] = last;
    w[4 * last + RUN.index] = index;
  }
}

/** Room to append that an idle run may keep, in blocks. */
const MAX_IDLE_ROOM = 64;
/** Beyond any block number of a run. */
const MAX_CUT = 0x10000;

function keyLow(w: Uint32Array, run: number, block: number): number {
  return (w[4 * block]! ^ Math.imul(run, 0x9e3779b1)) >>> 0;
}

function keyHigh(w: Uint32Array, run: number, block: number): number {
  return (w[4 * block + 1]! ^ Math.imul(w[4 * block + 2]! + run, 0x85ebca6b)) >>> 0;
}

function sameBlock(w: Uint32Array, a: number, b: number): boolean {
  return w[4 * a] === w[4 * b] && w[4 * a + 1] === w[4 * b + 1] && w[4 * a + 2] === w[4 * b + 2];
}
