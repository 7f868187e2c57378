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

export function createSentMarks<T>(): SentMarks<T> {
  const marks = new Map<string, T[]>();
  let out = 0;
  return {
    note(root, prompt, mark) {
      const key = keyOf(root, prompt);
      const list = marks.get(key);
      if (list === undefined) marks.set(key, [mark]);
      else list.push(mark);
      out++;
      while (out > MAX_OUT) {
        const [oldest, dropped] = marks.entries().next().value as [string, T[]];
        marks.delete(oldest);
        out -= dropped.length;
      }
    },
    take(root, prompt) {
      const key = keyOf(root, prompt);
      const list = marks.get(key);
      const mark = list?.shift();
      if (mark !== undefined) out--;
      if (list?.length === 0) marks.delete(key);
      return mark;
    },
  };
}

/** A few dozen multiplications: this runs twice a request. */
function keyOf(root: string, prompt: Uint8Array): string {
  const { length } = prompt;
  const step = Math.max(1, Math.floor(length / SAMPLED));
  let hash = 0x811c9dc5;
  for (let i = 0; i < length; i += step) hash = Math.imul(hash ^ prompt[i]!, 0x01000193);
  for (let i = Math.max(0, length - SAMPLED); i < length; i++) hash = Math.imul(hash ^ prompt[i]!, 0x01000193);
  return `${hash >>> 0}/${length}/${root}`;
}
