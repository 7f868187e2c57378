import type { WorkerId } from "./ids.ts";

/** What one router has on one worker, at the moment it is told. */
export interface WorkerBookings {
  readonly worker: WorkerId;
  readonly inFlight: number;
  /** Prompt tokens of those that gave no first token yet. */
  readonly queuedTokens: number;
  /** Past their first token. */
  readonly streams: number;
  /** Tokens of the oldest that waits, and how long ago it was booked (ms). */
  readonly headTokens: number;
  readonly headAgeMs: number;
  /** How long ago a prompt was last done there (ms); undefined: none was. */
  readonly doneAgeMs: number | undefined;
}

/** News of one router. */
export interface RouterBookings {
  readonly router: string;
  readonly workers: readonly WorkerBookings[];
  /** Workers that are not named have nothing of its. */
  readonly whole: boolean;
  /** It is not there any more. */
  readonly gone?: boolean;
}

/** How routers tell each other what they have in flight. Without the other end nothing is known, and each goes on by its own book. */
export interface BookingExchange {
  /**
   * Resolves when it was told, or could not be. Never rejects.
   * @param endsTurn the turn that `takeTurn()` gave is over
   */
  tell(workers: readonly WorkerBookings[], whole: boolean, endsTurn?: boolean): Promise<void>;
  /** Resolves when no other router chooses, with all that they have now; undefined when that cannot be had soon. Never rejects. */
  takeTurn(): Promise<readonly RouterBookings[] | undefined>;
  /** Until `close()`; what was heard is void when the connection ends (`undefined`). */
  listen(hear: (news: readonly RouterBookings[] | undefined) => void): void;
  close(): void;
}
