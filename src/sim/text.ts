const WORDS =
  "the a of and to in is it that for on as with by this an at from which are one two all more most river city coast north small large old new long first last water stone light road house garden market winter summer morning people story letter answer question place country name number part line side end way day year".split(
    " ",
  );

/** What decides an answer; the same gives the same, whatever engine and time. */
export interface AnswerRequest {
  /** Token ids of the prompt. */
  readonly prompt: readonly number[];
  readonly seed: number;
  /** Most tokens (bytes) it may have; at least 1. */
  readonly maxTokens: number;
  /** Fewest; the answer goes on where it would have ended before. */
  readonly minTokens?: number;
  /** Never ends by itself. */
  readonly ignoreEos?: boolean;
  /** Texts that end it; they are not part of it. */
  readonly stop?: readonly string[];
}

export interface Answer {
  /** ASCII: as many tokens as characters, at least one. */
  readonly text: string;
  readonly finish: "stop" | "length";
  /** The stop text that ended it. */
  readonly stopReason?: string;
}

/** Make up an answer: sentences of 6 to 14 common words, 2 to 5 of them where nothing else ends it. */
export function makeAnswer(request: AnswerRequest): Answer {
  const next = generator(hashIds(request.prompt, request.seed));
  const sentences = 2 + Math.floor(next() * 4);
  const endless = request.ignoreEos === true;
  let text = "";
  for (let i = 0; i < sentences || endless || text.length < (request.minTokens ?? 0); i++) {
    text += (i === 0 ? "" : " ") + sentence(next);
    if (text.length > request.maxTokens) break;
  }
  const cut = firstStop(text, request.stop ?? []);
  if (cut !== undefined && cut.at <= request.maxTokens) {
    // An answer has at least one token: a stop text at the very start leaves its first character.
    return { text: text.slice(0, Math.max(1, cut.at)), finish: "stop", stopReason: cut.stop };
  }
  if (text.length > request.maxTokens) return { text: text.slice(0, request.maxTokens), finish: "length" };
  return { text, finish: "stop" };
}

function sentence(next: () => number): string {
  const count = 6 + Math.floor(next() * 9);
  const words = Array.from({ length: count }, () => WORDS[Math.floor(next() * WORDS.length)]!);
  const text = words.join(" ");
  return `${text[0]!.toUpperCase()}${text.slice(1)}.`;
}

function firstStop(text: string, stops: readonly string[]): { at: number; stop: string } | undefined {
  let best: { at: number; stop: string } | undefined;
  for (const stop of stops) {
    const at = stop === "" ? -1 : text.indexOf(stop);
    if (at >= 0 && (best === undefined || at < best.at)) best = { at, stop };
  }
  return best;
}

/** FNV-1a over the ids. */
function hashIds(ids: readonly number[], seed: number): number {
  let hash = (0x811c9dc5 ^ seed) >>> 0;
  for (const id of ids) hash = Math.imul(hash ^ id, 0x01000193) >>> 0;
  return hash;
}

/** Mulberry32: numbers in [0, 1) from a 32-bit seed. */
function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}
