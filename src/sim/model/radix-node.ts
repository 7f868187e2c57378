import type { BlockName } from "./cache-event.ts";
import { Timers } from "./timers.ts";

/** A run of blocks that follow each other; what follows the last one is below. */
export interface RadixNode {
  /** Undefined for the root, and for what is lost. */
  parent: RadixNode | undefined;
  names: BlockName[];
  /** By the name of the first block. */
  children: Map<BlockName, RadixNode>;
  /** Sequences under way whose path goes through it. */
  locks: number;
  /** Order of last use. */
  lastUse: number;
}

export function newRoot(): RadixNode {
  return { parent: undefined, names: [], children: new Map(), locks: 0, lastUse: 0 };
}

/** Part a run after its first `length` blocks. @returns the upper part, which is new; whoever knows the run keeps the lower one */
export function splitNode(node: RadixNode, length: number): RadixNode {
  const parent = node.parent!;
  const upper: RadixNode = {
    parent,
    names: node.names.slice(0, length),
    children: new Map(),
    locks: node.locks,
    lastUse: node.lastUse,
  };
  node.names = node.names.slice(length);
  node.parent = upper;
  upper.children.set(node.names[0]!, node);
  parent.children.set(upper.names[0]!, upper);
  return upper;
}

/** Leaves that nobody uses, the least recently used first. */
export class LeafQueue {
  /** Entries that are no longer true are passed over when their turn comes. */
  readonly #entries = new Timers<{ readonly node: RadixNode; readonly lastUse: number }>();

  /** Call whenever a node may have become such a leaf, or was used as one. */
  offer(node: RadixNode): void {
    if (isIdleLeaf(node)) this.#entries.set(node.lastUse, { node, lastUse: node.lastUse });
  }

  /** @throws RangeError when there is none */
  take(): RadixNode {
    while (true) {
      const { node, lastUse } = this.#entries.take();
      if (isIdleLeaf(node) && node.lastUse === lastUse) return node;
    }
  }
}

function isIdleLeaf(node: RadixNode): boolean {
  return node.parent !== undefined && node.locks === 0 && node.children.size === 0;
}
