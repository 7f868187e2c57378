import { aligned, copied, firstDifference } from "./first-difference.ts";
import type { History, HistoryEntry, HistoryHit } from "./history.ts";
import type { RecordedPrompt, TokenMark, WorkerSlot } from "./prefix-index.ts";
import { bytesAt, cleanMarks, tokensAt } from "./token-marks.ts";

/**
 * An edge of the tree: bytes [start, end) of every prompt that passes here. All offsets count from the prompt's start, so
 * any of those prompts can lend its bytes.
 */
interface Edge {
  start: number;
  end: number;
  lender: HistoryEntry;
  /** By first byte. */
  children: Map<number, Edge>;
  readonly entries: Set<HistoryEntry>;
}

interface Worker {
  readonly maxEntries: number;
  /** Oldest first. */
  readonly entries: Set<HistoryEntry>;
}

/** Memory of an entry and its edges besides its bytes, about. */
export const ENTRY_OVERHEAD = 400;

/**
 * A radix tree over the bytes of recorded prompts. A match is one pass over the prompt, whatever the number of entries;
 * memory is the entries' bytes.
 */
class HistoryTree implements History {
  readonly #roots = new Map<string, Edge>();
  readonly #workers = new Map<WorkerSlot, Worker>();
  readonly #all = new Set<HistoryEntry>();
  #bytes = 0;

  get size(): number {
    return this.#all.size;
  }

  get bytes(): number {
    return this.#bytes;
  }

  add(slot: WorkerSlot, maxEntries: number): void {
    this.#workers.set(slot, { maxEntries, entries: new Set() });
  }

  drop(slot: WorkerSlot): void {
    this.clear(slot);
    this.#workers.delete(slot);
  }

  clear(slot: WorkerSlot): void {
    for (const entry of this.#workers.get(slot)?.entries ?? []) this.#take(entry);
  }

  evictOldest(): boolean {
    const [oldest] = this.#all;
    if (oldest !== undefined) this.#take(oldest);
    return oldest !== undefined;
  }

  entries(slot: WorkerSlot): readonly HistoryEntry[] {
    return [...(this.#workers.get(slot)?.entries ?? [])];
  }

  record(slot: WorkerSlot, prompt: RecordedPrompt, stamp: number, limit = prompt.bytes.length): void {
    const worker = this.#workers.get(slot);
    if (worker === undefined || worker.maxEntries < 1) return;
    const bytes = copied(prompt.bytes); // aligned for compare(), and the caller may reuse his
    const { root } = prompt;
    const inherited: TokenMark[] = [];
    for (const entry of worker.entries) {
      if (entry.root !== root || entry.bytes.length > bytes.length) continue;
      if (firstDifference(entry.bytes, bytes, 0, entry.bytes.length) < entry.bytes.length) continue;
      inherited.push(...entry.marks);
      this.#take(entry);
    }
    const marks = cleanMarks([...inherited, ...prompt.marks], bytes.length);
    const entry = { slot, root, bytes, marks, stamp, limit };
    this.#insert(entry);
    worker.entries.add(entry);
    this.#all.add(entry);
    this.#bytes += bytes.length + ENTRY_OVERHEAD;
    const [oldest] = worker.entries;
    if (worker.entries.size > worker.maxEntries && oldest !== undefined) this.#take(oldest);
  }

  match(root: string, prompt: Uint8Array, hit: HistoryHit): void {
    const start = this.#roots.get(root);
    if (start === undefined) return;
    const best = new Map<WorkerSlot, { entry: HistoryEntry; depth: number }>();
    this.#walk(start, prompt, (entry, reach) => {
      const depth = Math.min(entry.limit, reach);
      const before = best.get(entry.slot);
      const better = before === undefined || depth > before.depth;
      if (better || (depth === before.depth && entry.stamp >= before.entry.stamp))
        best.set(entry.slot, { entry, depth });
    });
    for (const [slot, { entry, depth }] of best) {
      const tokens = tokensAt(entry.marks, depth) - (depth === prompt.length ? 1 : 0);
      if (tokens > 0) hit(slot, depth, tokens);
    }
  }

  correct(slot: WorkerSlot, root: string, prompt: Uint8Array, reportedTokens: number, since: number): boolean {
    const start = this.#roots.get(root);
    if (start === undefined) return false;
    let changed = false;
    this.#walk(start, prompt, (entry, reach) => {
      if (entry.slot !== slot || entry.stamp > since) return;
      const limit = bytesAt(entry.marks, reportedTokens);
      if (limit >= Math.min(entry.limit, reach)) return;
      entry.limit = limit;
      changed = true;
    });
    return changed;
  }

  /** Tell for each entry of a root how far the prompt agrees with it; an entry may be told of several times, deepest last. */
  #walk(root: Edge, prompt: Uint8Array, visit: (entry: HistoryEntry, reach: number) => void): void {
    const text = aligned(prompt);
    let edge: Edge | undefined = root;
    while (edge !== undefined) {
      const end = Math.min(edge.end, text.length);
      const reach = firstDifference(edge.lender.bytes, text, edge.start, end);
      for (const entry of edge.entries) visit(entry, reach);
      edge = reach === edge.end && reach < text.length ? edge.children.get(text[reach]!) : undefined;
    }
  }

  #insert(entry: HistoryEntry): void {
    const { bytes, root } = entry;
    let edge = this.#roots.get(root);
    if (edge === undefined) {
      edge = newEdge(entry, 0, 0, []);
      this.#roots.set(root, edge);
    }
    edge.entries.add(entry);
    for (;;) {
      if (edge.end === bytes.length) return;
      const child = edge.children.get(bytes[edge.end]!);
      if (child === undefined) {
        edge.children.set(bytes[edge.end]!, newEdge(entry, edge.end, bytes.length, [entry]));
        return;
      }
      const reach = firstDifference(child.lender.bytes, bytes, child.start, Math.min(child.end, bytes.length));
      if (reach < child.end) splitEdge(child, reach);
      child.entries.add(entry);
      edge = child;
    }
  }

  #take(entry: HistoryEntry): void {
    this.#workers.get(entry.slot)?.entries.delete(entry);
    this.#all.delete(entry);
    this.#bytes -= entry.bytes.length + ENTRY_OVERHEAD;
    let edge = this.#roots.get(entry.root)!;
    edge.entries.delete(entry);
    if (edge.entries.size === 0) {
      this.#roots.delete(entry.root);
      return;
    }
    if (edge.lender === entry) edge.lender = anyOf(edge.entries);
    while (edge.end < entry.bytes.length) {
      const child: Edge = edge.children.get(entry.bytes[edge.end]!)!;
      child.entries.delete(entry);
      if (child.entries.size === 0) {
        edge.children.delete(entry.bytes[edge.end]!);
        break;
      }
      if (child.lender === entry) child.lender = anyOf(child.entries);
      edge = child;
    }
    mergeOnlyChild(edge);
  }
}

function newEdge(lender: HistoryEntry, start: number, end: number, entries: Iterable<HistoryEntry>): Edge {
  return { start, end, lender, children: new Map(), entries: new Set(entries) };
}

/** Cut an edge at `at`: it keeps the front, a new child below it takes the rest and the children. */
function splitEdge(edge: Edge, at: number): void {
  const rest = newEdge(edge.lender, at, edge.end, edge.entries);
  rest.children = edge.children;
  edge.end = at;
  edge.children = new Map([[edge.lender.bytes[at]!, rest]]);
}

/** Undo a split that nothing needs any longer. The empty edge at the root stays. */
function mergeOnlyChild(edge: Edge): void {
  const [child] = edge.children.values();
  if (edge.end === 0 || child === undefined || edge.children.size > 1 || child.entries.size < edge.entries.size) return;
  edge.end = child.end;
  edge.lender = child.lender;
  edge.children = child.children;
}

function anyOf(entries: Set<HistoryEntry>): HistoryEntry {
  const [first] = entries;
  return first!;
}

/** An empty history. */
export function createHistory(): History {
  return new HistoryTree();
}
