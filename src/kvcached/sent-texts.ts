import { Buffer } from "node:buffer";

/** Prompts that routers sent to one worker lately: what an engine stores of them it tokenised itself, from their text. */
export interface SentTexts {
  note(prompt: Uint8Array): void;
  /** Is all of this text a part of one of them that no answer can be in? */
  holds(bytes: Uint8Array): boolean;
}

/** Prompts kept; looking through one takes some microseconds for 32 KiB. */
const MAX_KEPT = 8;
/** A shorter text is not worth the search, and might stand anywhere. */
const MIN_BYTES = 256;

interface Kept {
  readonly prompt: Buffer;
  /** From here on a shorter prompt's answer may have come before: the engine may have stored that. */
  readonly own: number;
}

export function createSentTexts(): SentTexts {
  const kept: Kept[] = [];
  return {
    note(prompt) {
      const view = Buffer.from(prompt.buffer, prompt.byteOffset, prompt.byteLength);
      const begun = kept.filter(({ prompt: other }) => other.length < view.length && startsWith(view, other));
      const own = Math.min(view.length, ...begun.map(({ prompt: other }) => other.length));
      kept.push({ prompt: view, own });
      if (kept.length > MAX_KEPT) kept.shift();
    },
    holds(bytes) {
      if (bytes.length < MIN_BYTES) return false;
      return kept.some(({ prompt, own }) => {
        const at = own < bytes.length ? -1 : prompt.indexOf(bytes);
        return at >= 0 && at + bytes.length <= own;
      });
    },
  };
}

const startsWith = (text: Buffer, start: Buffer): boolean =>
  text.compare(start, 0, start.length, 0, start.length) === 0;
