import { AREA, type Core } from "./core.ts";
import type { CoreArguments } from "./core-arguments.ts";
import { copied } from "./first-difference.ts";
import type { History, HistoryEntry } from "./history.ts";
import type { RecordedPrompt, TokenMark } from "./prefix-index.ts";
import type { RootTable } from "./root-table.ts";
import type { WorkerState } from "./worker-table.ts";

/**
 * Chunks of `save()`. A chunk is
 *
 *     u32 magic, u32 version, u64 checksum of what follows, u32 kind, u32 tokens a block, u32 roots or bytes of JSON, u32 0,
 *
 * then for blocks: each root as u32 length and UTF-8, filled up to 16 bytes, then pieces (wasm/layout.ts); for a prompt without
 * events: JSON, then some of its bytes. The checksum is the index's own hash: it knows damage, and another seed.
 */
const MAGIC = 0x6b6e6763;
const VERSION = 1;
const HEAD = 32;
const BLOCKS = 1;
const PROMPT = 2;

const MAX_CHUNK = 262_144;
/** Bytes of a prompt in one chunk. */
const PROMPT_PART = 131_072;
/** A prompt longer than this was not recorded by us. */
const MAX_PROMPT = 2 ** 26;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Where a part of a prompt belongs. */
interface PromptHead {
  readonly root: string;
  readonly marks: readonly TokenMark[];
  readonly limit: number;
  readonly length: number;
  readonly at: number;
}

/** A chunk that was found sound. Its bytes lie in the core's area of bytes until the next call. */
export interface LoadedChunk {
  readonly blockTokens: number;
  /** Blocks in it, at most so many will be placed. */
  readonly blocks: number;
  /** [from, to) of the pieces. */
  readonly from: number;
  readonly to: number;
  readonly roots: readonly string[];
  readonly prompt: { readonly head: PromptHead; readonly bytes: Uint8Array } | undefined;
}

/** A save whose chunks are not all taken. */
interface Save {
  readonly worker: WorkerState;
  readonly prompts: HistoryEntry[];
  /** Chunks made and not taken. */
  readonly ready: Uint8Array[];
  isDone: boolean;
}

/** Writes and reads what workers hold. */
export class Snapshots {
  readonly #core: Core;
  readonly #arguments: CoreArguments;
  readonly #roots: RootTable;
  readonly #history: History;
  /** The core does one at a time. */
  #active: Save | undefined;
  /** Prompts of which not all parts are loaded, by worker. */
  readonly #parts = new WeakMap<WorkerState, { readonly head: PromptHead; readonly bytes: Uint8Array }>();

  constructor(core: Core, args: CoreArguments, roots: RootTable, history: History) {
    this.#core = core;
    this.#arguments = args;
    this.#roots = roots;
    this.#history = history;
  }

  /** All that a worker holds, from now on. */
  save(worker: WorkerState): Iterable<Uint8Array> {
    this.#complete(this.#active);
    const save: Save = { worker, prompts: [...this.#history.entries(worker.slot)], ready: [], isDone: false };
    if (worker.core === 0 || this.#core.calls.beginSave(worker.core) === 0) save.isDone = true;
    else this.#active = save;
    return this.#chunks(save);
  }

  *#chunks(save: Save): Generator<Uint8Array> {
    for (const prompt of save.prompts) yield* this.#promptChunks(save.worker, prompt);
    try {
      for (;;) {
        if (save.ready.length === 0 && !save.isDone) this.#step(save);
        const chunk = save.ready.shift();
        if (chunk !== undefined) yield chunk;
        else if (save.isDone) return;
        else yield this.#seal(this.#newChunk(BLOCKS, save.worker, 0, 0));
      }
    } finally {
      // The reader may have had enough.
      this.#end(save);
    }
  }

  /** Before a worker's blocks go: what is being saved of it is as it was. */
  finish(worker: WorkerState): void {
    if (this.#active?.worker === worker) this.#complete(this.#active);
  }

  #complete(save: Save | undefined): void {
    while (save !== undefined && !save.isDone) this.#step(save);
  }

  #end(save: Save): void {
    save.isDone = true;
    if (this.#active !== save) return;
    this.#core.calls.endSave();
    this.#active = undefined;
  }

  #step(save: Save): void {
    const written = this.#core.calls.saveStep();
    if (written < 0) this.#end(save);
    else if (written > 0) this.#pack(save, written);
  }

  /** Make chunks of the pieces that the core wrote. */
  #pack(save: Save, written: number): void {
    const rootCount = this.#core.calls.savedRoots();
    const rootsAt = this.#core.area(AREA.roots, 4 * rootCount) / 4;
    const roots = Array.from({ length: rootCount }, (_, i) => {
      return encoder.encode(this.#roots.key(this.#core.words[rootsAt + i]!));
    });
    const before = HEAD + roots.reduce((sum, root) => sum + filledUp(4 + root.length), 0);
    const at = this.#core.area(AREA.chunk, written);
    for (let from = 0; from < written; ) {
      let to = from;
      while (to < written) {
        const piece = this.#core.words[(at + to) / 4]!;
        if (to > from && before + to + piece - from > MAX_CHUNK) break;
        to += piece;
      }
      const chunk = this.#newChunk(BLOCKS, save.worker, roots.length, before + to - from - HEAD);
      putRoots(chunk, roots);
      chunk.set(this.#core.bytes.subarray(at + from, at + to), before);
      save.ready.push(this.#seal(chunk));
      from = to;
    }
  }

  *#promptChunks(worker: WorkerState, { root, bytes, marks, limit }: HistoryEntry): Generator<Uint8Array> {
    for (let at = 0; at === 0 || at < bytes.length; at += PROMPT_PART) {
      const head: PromptHead = { root, marks, limit, length: bytes.length, at };
      const json = encoder.encode(JSON.stringify(head));
      const part = bytes.subarray(at, at + PROMPT_PART);
      const chunk = this.#newChunk(PROMPT, worker, json.length, json.length + part.length);
      chunk.set(json, HEAD);
      chunk.set(part, HEAD + json.length);
      yield this.#seal(chunk);
    }
  }

  #newChunk(kind: number, { blockTokens }: WorkerState, third: number, length: number): Uint8Array {
    const chunk = new Uint8Array(HEAD + length);
    const view = new DataView(chunk.buffer);
    view.setUint32(0, MAGIC, true);
    view.setUint32(4, VERSION, true);
    view.setUint32(16, kind, true);
    view.setUint32(20, blockTokens, true);
    view.setUint32(24, third, true);
    return chunk;
  }

  #seal(chunk: Uint8Array): Uint8Array {
    new DataView(chunk.buffer).setBigUint64(8, this.#checksum(chunk), true);
    return chunk;
  }

  /** Leaves the chunk in the core's area of bytes. */
  #checksum(chunk: Uint8Array): bigint {
    if (!this.#arguments.putBytes(chunk)) return 0n;
    const at = this.#core.calls.area(AREA.bytes);
    return BigInt.asUintN(64, this.#core.calls.hashBytes(at + 16, chunk.length - 16));
  }

  /** Check a chunk; undefined when it is not one of ours. */
  read(chunk: Uint8Array): LoadedChunk | undefined {
    if (chunk.length < HEAD) return undefined;
    const bytes = copied(chunk);
    const view = new DataView(bytes.buffer);
    if (view.getUint32(0, true) !== MAGIC || view.getUint32(4, true) !== VERSION) return undefined;
    if (view.getBigUint64(8, true) !== this.#checksum(bytes)) return undefined;
    const kind = view.getUint32(16, true);
    const third = view.getUint32(24, true);
    const blockTokens = view.getUint32(20, true);
    if (kind === PROMPT) return readPrompt(bytes, blockTokens, third);
    const found = kind === BLOCKS ? readRoots(bytes, third) : undefined;
    if (found === undefined) return undefined;
    const blocks = this.#core.calls.checkPieces(found.end, bytes.length, third);
    if (blocks < 0) return undefined;
    return { blockTokens, blocks, from: found.end, to: bytes.length, roots: found.roots, prompt: undefined };
  }

  /** Place what a sound chunk says, right after it was read. */
  place(
    worker: WorkerState,
    chunk: Uint8Array,
    loaded: LoadedChunk,
    stamp: number,
  ): { readonly orphans: number; readonly dropped: number } {
    if (loaded.prompt !== undefined) {
      this.#placePrompt(worker, loaded.prompt.head, loaded.prompt.bytes, stamp);
      return { orphans: 0, dropped: 0 };
    }
    if (loaded.blocks === 0) return { orphans: 0, dropped: 0 };
    const numbers = loaded.roots.map((root) => this.#roots.ensure(root));
    const rootsAt = this.#core.room(AREA.roots, 4 * numbers.length) / 4;
    if (rootsAt === 0 || numbers.includes(-1) || !this.#arguments.putBytes(chunk))
      return { orphans: 0, dropped: loaded.blocks };
    this.#core.words.set(numbers, rootsAt);
    const { calls } = this.#core;
    calls.loadPieces(worker.core, loaded.from, loaded.to, numbers.length, stamp);
    this.#arguments.forget();
    return { orphans: calls.orphansOfLoad(), dropped: calls.droppedOfLoad() };
  }

  #placePrompt(worker: WorkerState, head: PromptHead, bytes: Uint8Array, stamp: number): void {
    const part = head.at === 0 ? { head, bytes: new Uint8Array(head.length) } : this.#parts.get(worker);
    if (part === undefined || part.head.length !== head.length || head.at + bytes.length > head.length) return;
    part.bytes.set(bytes, head.at);
    if (head.at + bytes.length < head.length) {
      this.#parts.set(worker, part);
      return;
    }
    this.#parts.delete(worker);
    const prompt: RecordedPrompt = { root: head.root, bytes: part.bytes, marks: head.marks };
    this.#history.record(worker.slot, prompt, stamp, head.limit);
  }
}

const filledUp = (length: number): number => Math.ceil(length / 16) * 16;

function putRoots(chunk: Uint8Array, roots: readonly Uint8Array[]): void {
  const view = new DataView(chunk.buffer);
  let at = HEAD;
  for (const root of roots) {
    view.setUint32(at, root.length, true);
    chunk.set(root, at + 4);
    at += filledUp(4 + root.length);
  }
}

function readRoots(bytes: Uint8Array, count: number): { readonly roots: string[]; readonly end: number } | undefined {
  const view = new DataView(bytes.buffer);
  const roots: string[] = [];
  let at = HEAD;
  for (let i = 0; i < count; i++) {
    if (at + 4 > bytes.length) return undefined;
    const length = view.getUint32(at, true);
    if (at + 4 + length > bytes.length) return undefined;
    roots.push(decoder.decode(bytes.subarray(at + 4, at + 4 + length)));
    at += filledUp(4 + length);
  }
  return at <= bytes.length ? { roots, end: at } : undefined;
}

function readPrompt(bytes: Uint8Array, blockTokens: number, jsonLength: number): LoadedChunk | undefined {
  try {
    const head = JSON.parse(decoder.decode(bytes.subarray(HEAD, HEAD + jsonLength))) as PromptHead;
    if (!(head.length <= MAX_PROMPT && head.at <= head.length)) return undefined;
    const prompt = { head, bytes: bytes.subarray(HEAD + jsonLength) };
    return { blockTokens, blocks: 0, from: 0, to: 0, roots: [], prompt };
  } catch {
    return undefined;
  }
}
