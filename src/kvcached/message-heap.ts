import type { SourceMessage } from "./source-state.ts";

/**
 * Messages that wait, lowest sequence number first: a leftist heap. A value: pushing and popping make new nodes along one short
 * path and leave the old heap as it was. Both cost the logarithm of what waits, whatever the order they come in.
 */
export interface MessageHeap {
  /** The one with the lowest sequence number. */
  readonly message: SourceMessage;
  readonly count: number;
  /** Nodes on the way right to the end: at most the logarithm of `count`. */
  readonly rank: number;
  readonly left: MessageHeap | undefined;
  readonly right: MessageHeap | undefined;
}

export function pushMessage(heap: MessageHeap | undefined, message: SourceMessage): MessageHeap {
  return merge(heap, { message, count: 1, rank: 1, left: undefined, right: undefined })!;
}

/** The heap without its lowest message. */
export function popMessage(heap: MessageHeap): MessageHeap | undefined {
  return merge(heap.left, heap.right);
}

function merge(a: MessageHeap | undefined, b: MessageHeap | undefined): MessageHeap | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  const [top, other] = a.message.seq <= b.message.seq ? [a, b] : [b, a];
  const merged = merge(top.right, other)!;
  const [left, right] = (top.left?.rank ?? 0) >= merged.rank ? [top.left, merged] : [merged, top.left];
  return { message: top.message, count: a.count + b.count, rank: (right?.rank ?? 0) + 1, left, right };
}
