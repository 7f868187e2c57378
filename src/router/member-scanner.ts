const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;

/** A member at the top of a JSON object, by its place in the bytes. */
export interface Member {
  /** Empty for a key that is longer than any that matters here. */
  readonly key: string;
  /** First byte of the key's quote. */
  readonly start: number;
  readonly valueStart: number;
  /** One past the value. */
  readonly end: number;
}

/** Within a string so many bytes are looked at one by one: most strings are short. */
const NEAR = 64;
const MAX_BACKSLASHES = 4_096;

/** Longest spelling of a key that is read: escapes make a letter six bytes. */
const MAX_KEY_BYTES = 1024;

/** The bytes are no JSON object, or not one that is taken. The message says what is. */
export class NotAnObject extends Error {
  override readonly name = "NotAnObject";
  /** What would be right, where that is not a JSON object. */
  readonly should: string | undefined;

  constructor(message: string, should?: string) {
    super(message);
    this.should = should;
  }
}

type State = "key" | "colon" | "value" | "rest" | "after" | "done";

/**
 * Finds the members at the top of a JSON object on its bytes, a bounded piece of work at a time: a body of 64 MB is read
 * without building what it says and without stopping the process for long.
 *
 * Values are cut out, not judged: whoever accepts the text as JSON (or JSON with `NaN`) sees the same members at the same
 * places. What is not cut out well is refused.
 */
export class MemberScanner {
  readonly members: Member[] = [];
  /**
   * Objects, lists and members below the top, and items of lists within others: what it would cost to build and render them.
   * Not items of a list at the top: a prompt of token ids is cheap.
   */
  parts = 0;
  /** Deepest nesting below the top. */
  depth = 0;
  readonly #b: Buffer;
  #at = 0;
  #state: State = "key";
  #level = 0;
  #inString = false;
  #keyStart = 0;
  #keyEnd = 0;
  #valueStart = 0;

  constructor(json: Buffer) {
    this.#b = json;
    this.#blanks();
    if (json[this.#at] !== OPEN_BRACE) this.#fail();
    this.#at++;
    this.#blanks();
    if (json[this.#at] === CLOSE_BRACE) this.#close();
  }

  /**
   * Go on.
   * @param budget about how many bytes to look at
   * @returns true when all members are known
   * @throws NotAnObject
   */
  step(budget: number): boolean {
    const stop = Math.min(this.#b.length, this.#at + budget);
    while (this.#state !== "done" && this.#at < stop) {
      if (this.#inString) this.#string(stop);
      else if (this.#state === "rest") this.#rest(stop);
      else this.#token();
    }
    if (this.#state !== "done" && this.#at >= this.#b.length) this.#fail();
    return this.#state === "done";
  }

  /** One token between members. */
  #token(): void {
    this.#blanks();
    const c = this.#b[this.#at];
    if (this.#state === "key") {
      if (c !== QUOTE) this.#fail();
      this.#keyStart = this.#at++;
      this.#inString = true;
    } else if (this.#state === "colon") {
      if (c !== COLON) this.#fail();
      this.#at++;
      this.#state = "value";
    } else if (this.#state === "value") {
      this.#valueStart = this.#at;
      if (c === undefined || c === COMMA || c === CLOSE_BRACE || c === COLON) this.#fail();
      this.#state = "rest";
    } else if (c === COMMA) {
      this.#at++;
      this.#state = "key";
    } else if (c === CLOSE_BRACE) {
      this.#close();
    } else {
      this.#fail();
    }
  }

  /** The rest of a value outside strings. */
  #rest(stop: number): void {
    const b = this.#b;
    let at = this.#at;
    let level = this.#level;
    for (; at < stop; at++) {
      const c = b[at]!;
      if (c === QUOTE) {
        this.#inString = true;
        at++;
        break;
      }
      if (c === OPEN_BRACE || c === OPEN_BRACKET) {
        this.parts++;
        if (++level > this.depth) this.depth = level;
      } else if (c === COLON || (c === COMMA && level > 1)) {
        this.parts++;
      } else if (level === 0 && (c === COMMA || c === CLOSE_BRACE || c === CLOSE_BRACKET)) {
        // A number or literal: blanks after it belong to what follows.
        this.#at = at;
        this.#member(trimEnd(b, at));
        return;
      } else if ((c === CLOSE_BRACE || c === CLOSE_BRACKET) && --level === 0) {
        this.#at = at + 1;
        this.#level = 0;
        this.#member(at + 1);
        return;
      }
    }
    this.#level = level;
    this.#at = at;
  }

  /** The rest of a string: its first bytes one by one, then from quote to quote. */
  #string(stop: number): void {
    const b = this.#b;
    const near = Math.min(stop, this.#at + NEAR);
    let at = this.#at;
    for (; at < near; at++) {
      const c = b[at];
      if (c === BACKSLASH) at++;
      else if (c === QUOTE) {
        this.#at = at + 1;
        this.#endString();
        return;
      }
    }
    this.#at = at;
    if (at < stop) this.#far();
  }

  /** Go to the next quote; the byte before here is no backslash that counts. */
  #far(): void {
    const b = this.#b;
    const quote = b.indexOf(QUOTE, this.#at);
    if (quote < 0) this.#fail();
    let first = quote;
    const least = Math.max(this.#at, quote - MAX_BACKSLASHES);
    while (first > least && b[first - 1] === BACKSLASH) first--;
    // More backslashes than anybody sends: one by one, that it stays a small step.
    if (first === least && least > this.#at) return;
    this.#at = quote + 1;
    if ((quote - first) % 2 === 0) this.#endString();
  }

  #endString(): void {
    this.#inString = false;
    if (this.#state === "key") {
      this.#keyEnd = this.#at;
      this.#state = "colon";
    } else if (this.#level === 0) {
      this.#member(this.#at);
    }
  }

  #member(end: number): void {
    this.members.push({ key: this.#key(), start: this.#keyStart, valueStart: this.#valueStart, end });
    this.#state = "after";
  }

  #key(): string {
    if (this.#keyEnd - this.#keyStart > MAX_KEY_BYTES) return "";
    try {
      return JSON.parse(this.#b.toString("utf8", this.#keyStart, this.#keyEnd)) as string;
    } catch {
      return this.#fail();
    }
  }

  /** The object's end; only blanks may follow. */
  #close(): void {
    this.#at++;
    this.#blanks();
    if (this.#at < this.#b.length) this.#fail();
    this.#state = "done";
  }

  #blanks(): void {
    const b = this.#b;
    let at = this.#at;
    while (b[at] === 0x20 || b[at] === 0x0a || b[at] === 0x0d || b[at] === 0x09) at++;
    this.#at = at;
  }

  #fail(): never {
    throw new NotAnObject(`the body is no JSON object (byte ${this.#at})`);
  }
}

/** One past the last byte before `at` that is no blank. */
function trimEnd(b: Buffer, at: number): number {
  while (b[at - 1] === 0x20 || b[at - 1] === 0x0a || b[at - 1] === 0x0d || b[at - 1] === 0x09) at--;
  return at;
}
