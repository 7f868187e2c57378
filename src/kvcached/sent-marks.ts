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

/** One that is out. */
interface Sent<T> {
  readonly key: number;
  readonly mark: T;
  /** The next one of its bucket, sent later. */
  next: Sent<T> | undefined;
  /** Its neighbours in the order of sending. */
  before: Sent<T> | undefined;
  after: Sent<T> | undefined;
}

const BUCKETS = 4_096;
/** Of a key the last 21 bits are the prompt's length. */
const LENGTHS = 2 ** 21;
const bucketOf = (key: number): number => (key / LENGTHS) & (BUCKETS - 1);

/**
 * No `Map`: where each request adds and deletes an entry V8 gives it a new table again and again, and the old ones keep what they held through the
 * collections of young garbage (as `LegList` says).
 */
export function createSentMarks<T>(): SentMarks<T> {
  const buckets = new Array<Sent<T> | undefined>(BUCKETS).fill(undefined);
  let first: Sent<T> | undefined;
  let last: Sent<T> | undefined;
  let out = 0;
  const remove = (sent: Sent<T>): void => {
    const at = bucketOf(sent.key);
    let each = buckets[at];
    if (each === sent) buckets[at] = sent.next;
    else {
      while (each !== undefined && each.next !== sent) each = each.next;
      if (each !== undefined) each.next = sent.next;
    }
    if (sent.before === undefined) first = sent.after;
    else sent.before.after = sent.after;
    if (sent.after === undefined) last = sent.before;
    else sent.after.before = sent.before;
    sent.next = sent.before = sent.after = undefined;
    out--;
  };
  return {
    note(root, prompt, mark) {
      const sent: Sent<T> = { key: keyOf(root, prompt), mark, next: undefined, before: last, after: undefined };
      const at = bucketOf(sent.key);
      let tail = buckets[at];
      if (tail === undefined) buckets[at] = sent;
      else {
        while (tail.next !== undefined) tail = tail.next;
        tail.next = sent;
      }
      if (last === undefined) first = sent;
      else last.after = sent;
      last = sent;
      out++;
      if (out > MAX_OUT && first !== undefined) remove(first);
    },
    take(root, prompt) {
      const key = keyOf(root, prompt);
      let sent = buckets[bucketOf(key)];
      while (sent !== undefined && sent.key !== key) sent = sent.next;
      if (sent !== undefined) remove(sent);
      return sent?.mark;
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
  return (hash >>> 0) * LENGTHS + (length % LENGTHS);
}
