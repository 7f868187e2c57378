/** Time as an argument: the real one is made at the edge, tests and the simulator pass their own. */
export interface Clock {
  /** Monotonic milliseconds, fractions included. */
  now(): number;
  /** Milliseconds since the epoch, for logs and files only. */
  wall(): number;
  /** Run `fn` after `ms`; the result cancels it. */
  after(ms: number, fn: () => void): () => void;
}
