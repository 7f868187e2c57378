/** Common in every vocabulary, so that each is a token or two. */
const WORDS =
  "time year people way day man thing woman life child world school state family student group country problem hand part place case week company system program question work government number night point home water room mother area money story fact month lot right study book eye job word business issue side kind head house service friend father power hour game line end member law car city".split(
    " ",
  );

/** Makes prompts of random words; no two begin alike. */
export class UniquePrompts {
  readonly #random: () => number;
  /** Tokens that a prompt has besides its words, and those of a word; found out by `learn`. */
  #fixed = 1;
  #perWord = 1.1;

  /** @param random from 0 to 1 */
  constructor(random: () => number) {
    this.#random = random;
  }

  words(count: number): string {
    return Array.from({ length: count }, () => WORDS[Math.floor(this.#random() * WORDS.length)]!).join(" ");
  }

  /** A prompt of about so many tokens; or one that has about so many more than `begin`, with which it begins. */
  ofTokens(tokens: number, begin?: string): string {
    const fixed = begin === undefined ? this.#fixed : 0;
    const words = this.words(Math.max(1, Math.round((tokens - fixed) / this.#perWord)));
    return begin === undefined ? words : `${begin} ${words}`;
  }

  /** What two prompts of different lengths turned out to be. */
  learn(short: { readonly words: number; readonly tokens: number }, long: typeof short): void {
    this.#perWord = (long.tokens - short.tokens) / (long.words - short.words);
    this.#fixed = short.tokens - short.words * this.#perWord;
  }
}
