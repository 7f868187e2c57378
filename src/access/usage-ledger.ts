import type { Subject } from "./subject.ts";

/** What one subject used since the router started. Tokens are the engines' figures. */
export interface Usage {
  readonly subject: string;
  /** The key's first digits, or the token's subject; absent for `anonymous` and `other`. */
  readonly keyId?: string;
  requests: number;
  /** Of them: ended otherwise than `ok`. */
  failed: number;
  promptTokens: number;
  /** Of them: found in an engine's cache. */
  cachedTokens: number;
  completionTokens: number;
  /** Milliseconds since the epoch. */
  lastAt: number;
}

/** Subjects beyond this number are counted together. */
const MAX_SUBJECTS = 10_000;

/** Usage by subject, bounded: subjects of tokens may be any number. */
export class UsageLedger {
  readonly #max: number;
  readonly #rows = new Map<string, Usage>();

  constructor(max = MAX_SUBJECTS) {
    this.#max = max;
  }

  /** The row of a subject, to add to. */
  of(subject: Pick<Subject, "name" | "keyId">): Usage {
    const key = subject.keyId ?? subject.name;
    const known = this.#rows.get(key);
    if (known !== undefined) return known;
    if (this.#rows.size >= this.#max) return this.#rows.get(OTHER) ?? this.#add(OTHER, { name: "other" });
    return this.#add(key, subject);
  }

  /** Most tokens first. */
  rows(): readonly Usage[] {
    const tokens = (u: Usage): number => u.promptTokens + u.completionTokens;
    return [...this.#rows.values()].sort((a, b) => tokens(b) - tokens(a) || b.requests - a.requests);
  }

  #add(key: string, { name, keyId }: Pick<Subject, "name" | "keyId">): Usage {
    const row: Usage = {
      subject: name,
      ...(keyId === undefined ? {} : { keyId }),
      requests: 0,
      failed: 0,
      promptTokens: 0,
      cachedTokens: 0,
      completionTokens: 0,
      lastAt: 0,
    };
    this.#rows.set(key, row);
    return row;
  }
}

/** No subject's name has this character. */
const OTHER = "\u0001";
