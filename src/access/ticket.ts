/** What a request that was let in holds: its place among the subject's, and the tokens that were set aside for it. */
export interface Ticket {
  /** `x-ratelimit-…` for the answer. */
  readonly headers: Readonly<Record<string, string>>;
  /** A limit on tokens binds: `reserve()` does something. */
  readonly countsTokens: boolean;
  /** Set so many tokens aside, once the prompt's size is known. */
  reserve(promptTokens: number): void;
  /**
   * Give the place back, and pay. Only the first call counts.
   * @param tokens what was used; undefined: unknown, so what was set aside is paid
   */
  end(tokens: number | undefined): void;
}

/** Of a request that nothing limits. */
export const FREE_TICKET: Ticket = { headers: {}, countsTokens: false, reserve() {}, end() {} };
