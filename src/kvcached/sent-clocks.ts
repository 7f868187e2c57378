/** Remembers the index's clock at which requests were sent, until their outcome is told. */
export interface SentClocks {
  note(root: string, prompt: Uint8Array, clock: number): void;
  /** The clock of the oldest request with this prompt still out, and forget it; undefined when none is known. */
  take(root: string, prompt: Uint8Array): number | undefined;
}

/** Requests out at once that are remembered; older ones are forgotten (their outcome then corrects nothing). */
const MAX_OUT = 8_192;
/**
 * Bytes looked at for a prompt's key: so many from its end, where prompts differ, and as many spread over it. Two prompts
 * that share them only swap their clocks.
 */
const SAMPLED = 48;

export function createSentClocks(): SentClocks {
  const clocks = new Map<string, number[]>();
  let out = 0;
  return {
    note(root, prompt, clock) {
      const key = keyOf(root, prompt);
      const list = clocks.get(key);
      if (list === undefined) clocks.set(key, [clock]);
      else list.push(clock);
      out++;
      while (out > MAX_OUT) {
        const [oldest, dropped] = clocks.entries().next().value as [string, number[]];
        clocks.delete(oldest);
        out -= dropped.length;
      }
    },
    take(root, prompt) {
      const key = keyOf(root, prompt);
      const list = clocks.get(key);
      const clock = list?.shift();
      if (clock !== undefined) out--;
      if (list?.length === 0) clocks.delete(key);
      return clock;
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
