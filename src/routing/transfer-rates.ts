/** What a hand-over adds to the time to first token. */
export interface TransferRate {
  readonly baseMs: number;
  readonly perTokenMs: number;
}

/** Until there are observations: 20 ms, and 50,000 tokens a second (NIXL over a fast network moves more, TCP on a CPU less). */
const PRIOR: TransferRate = { baseMs: 20, perTokenMs: 0.02 };
/** The prior weighs as much as so many hand-overs of 0 and 2,000 tokens each. */
const PRIOR_WEIGHT = 0.5;
const PRIOR_TOKENS = 2_000;
/** Weight of the past at each observation: about the last 100 count. */
const FORGET = 0.99;
/** Slower than so many times what was expected is an accident (a first handshake takes seconds), and counts as that much. */
const STRAGGLER = 8;

/**
 * Time from a decode leg's dispatch to its first token, over the tokens that it had to fetch: a line through what was seen, with
 * forgetting, drawn to a prior. One for each decode worker.
 */
export class TransferRates {
  #n = 2 * PRIOR_WEIGHT;
  #x = PRIOR_WEIGHT * PRIOR_TOKENS;
  #y = PRIOR_WEIGHT * (2 * PRIOR.baseMs + PRIOR_TOKENS * PRIOR.perTokenMs);
  #xx = PRIOR_WEIGHT * PRIOR_TOKENS ** 2;
  #xy = PRIOR_WEIGHT * PRIOR_TOKENS * (PRIOR.baseMs + PRIOR_TOKENS * PRIOR.perTokenMs);

  observe(tokens: number, ms: number): void {
    if (!(tokens >= 0 && ms >= 0 && Number.isFinite(tokens + ms))) return;
    const { baseMs, perTokenMs } = this.rate();
    const seen = Math.min(ms, STRAGGLER * (baseMs + tokens * perTokenMs));
    this.#n = this.#n * FORGET + 1;
    this.#x = this.#x * FORGET + tokens;
    this.#y = this.#y * FORGET + seen;
    this.#xx = this.#xx * FORGET + tokens * tokens;
    this.#xy = this.#xy * FORGET + tokens * seen;
  }

  rate(): TransferRate {
    const spread = this.#n * this.#xx - this.#x * this.#x;
    const slope = spread > 1e-6 * this.#n ? (this.#n * this.#xy - this.#x * this.#y) / spread : PRIOR.perTokenMs;
    // Of requests of one length nothing can be told apart: neither part is ever negative.
    const perTokenMs = Math.min(Math.max(0, slope), this.#x > 0 ? this.#y / this.#x : slope);
    return { baseMs: Math.max(0, (this.#y - perTokenMs * this.#x) / this.#n), perTokenMs };
  }
}
