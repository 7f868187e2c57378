/**
 * The records of the run tree, as words from a unit's first word on (`4 × place`).
 *
 * A **block** (1 unit) is [hash low, hash high, byte length, run]. The hash is of the block's own bytes: its place in the
 * tree says what stands before it.
 *
 * A **run** (3 units) is a chain of blocks that lie one after another in memory, with branches only at its end:
 *
 *     root ── run ─┬─ run ─┬─ run          a run's place is its number; a root is a run without blocks
 *                  │       └─ run
 *                  └─ run
 *
 * A **cover** (1 unit) says which of a run's blocks one lane (a worker's blocks in one tier) holds: [from, to). Holes do not
 * exist: a run is split where one would be. Blocks from `limit` on are held, but hidden by a correction. A run's covers lie
 * in one array, the one used last in front.
 *
 * A **length** (1 unit) says how many of a run's children begin with a block of that many bytes: what lengths of the prompt
 * must be hashed to find the child.
 *
 * Words of a block: low, high, bytes, run. Words of a cover: lane, from and to, limit, stamp.
 */
export const RUN = {
  /** Place of its first block. */
  blocks: 0,
  length: 1,
  /** Units from `blocks` on that are the run's: room to append. */
  room: 2,
  /** 0 for a root. Never FREE, as all last words of units. */
  parent: 3,
  children: 4,
  /** First of its lengths, 0 for none. */
  lengths: 5,
  covers: 6,
  coverCount: 7,
  coverRoom: 8,
  /** Index clock when it was last matched or stored to. */
  touched: 9,
  flags: 10,
  /** Its index in the list of runs. */
  index: 11,
} as const;
export const RUN_UNITS = 3;

/** Flags of a run. A dead run was evicted: it is no longer in the tree, and waits until no name leads to it. */
export const FLAG_ROOT = 1;
export const FLAG_DEAD = 2;

/** No correction hides anything. Above every length of a run. */
export const NO_LIMIT = 0xffff;
/** Blocks a run: `from` and `to` have 16 bits. */
export const MAX_RUN = 0xfff0;

export const LENGTH = { bytes: 0, count: 1, next: 2 } as const;

/** A name leads to a place (low 28 bits) and the tiers it is in (one bit each above). */
export const PLACE_MASK = 0x0fffffff;
export const TIER_SHIFT = 28;
