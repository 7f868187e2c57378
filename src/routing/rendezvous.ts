/** How many of a prompt's first bytes name its prefix: enough to tell system prompts apart, few enough to cost nothing. */
const PREFIX_BYTES = 256;

/** 32-bit FNV-1a of a text, as UTF-16 units. Not for adversaries: it only spreads. */
export function textHash(text: string): number {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  return h >>> 0;
}

/** A stable name of a prompt's prefix: its root and first 256 bytes. Allocates nothing. */
export function prefixHash(root: string, prompt: Uint8Array): number {
  let h = textHash(root);
  const end = Math.min(PREFIX_BYTES, prompt.length);
  for (let i = 0; i < end; i++) h = Math.imul(h ^ prompt[i]!, 0x01000193);
  return h >>> 0;
}

/**
 * Weight of a worker for a prefix: highest random weight. Each prefix has its own order of all workers, so losing one
 * moves only the prefixes that lived there.
 */
export function rendezvousWeight(prefix: number, worker: string): number {
  // Finaliser of MurmurHash3 (public domain): FNV alone leaves neighbours too alike.
  let h = (prefix ^ textHash(worker)) >>> 0;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

/** Index of the worker with the highest weight for this prefix. @throws RangeError when there is none */
export function rendezvous(prefix: number, workers: readonly { readonly id: string }[]): number {
  if (workers.length === 0) throw new RangeError("rendezvous() needs at least one worker");
  let best = 0;
  let bestWeight = -1;
  for (let i = 0; i < workers.length; i++) {
    const weight = rendezvousWeight(prefix, workers[i]!.id);
    if (weight > bestWeight) {
      best = i;
      bestWeight = weight;
    }
  }
  return best;
}
