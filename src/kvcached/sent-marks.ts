/** Remembers something about requests that were sent, until their outcome is told. */
export interface SentMarks<T> {
  note(root: string, prompt: Uint8Array, mark: T): void;
  /** The mark of the oldest request with this prompt still out, and forget it; undefined when none is known. */
  take(root: string, prompt: Uint8Array): T | undefined;
}

/** Requests out at once that are remembered; older ones are forgotten (their outcome then corrects nothing). */
const MAX_OUT = 8_192;
/**
 * Bytes looked at for a prompt's key: so many from its end, where prompts differ, and as many spread over it. Two prompts
 * that share them only swap their marks.
 */
const SAMPLED = 48;

/** One that is out, and the next one with the same key. */
interface Sent<T> {
  readonly mark: T;
  next: Sent<T> | undefined;
}

export function createSentMarks<T>(): SentMarks<T> {
  const marks = new Map<number, Sent<T>>();
  let out = 0;
  return {
    note(root, prompt, mark) {
      const key = keyOf(root, prompt);
      const sent = { mark, next: undefined };
      let last = marks.get(key);
      if (last === undefined) marks.set(key, sent);
      else {
        while (last.next !== undefined) last = last.next;
        last.next = sent;
      }
      out++;
      while (out > MAX_OUT) {
        const [oldest, dropped] = marks.entries().next().value as [number, Sent<T>];
        marks.delete(oldest);
        for (let each: Sent<T> | undefined = dropped; each !== undefined; each = each.next) out--;
      }
    },
    take(root, prompt) {
      const key = keyOf(root, prompt);
      const first = marks.get(key);
      if (first === undefined) return undefined;
      out--;
      if (first.next === undefined) marks.delete(key);
      else marks.set(key, first.next);
      return first.mark;
    },
  };
}

/** A few dozen multiplications: this runs twice a request. */
function keyOf(root: string, prompt: Uint8Array): number {
  const { length } = prompt;
  const step = Math.max(1, Math.floor(length / SAMPLED));
  let hash = 0x811c9dc5;
  for (let i = 0; i < length; i += step) hash = Math.imul(hash ^ prompt[i]!, 0x01000193);
  for (let i = Math.max(0, length - SAMPLED); i < length; i++) hash = Math.imul(hash ^ prompt[i]!, 0x01000193);
  for (let i = 0; i < root.length; i++) hash = Math.imul(hash ^ root.charCodeAt(i), 0x01000193);
  // 53 bits: the hash and the length.
  return (hash >>> 0) * 2 ** 21 + (length % 2 ** 21);
}
