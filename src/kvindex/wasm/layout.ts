/**
 * Records in memory. Pointers are byte addresses, multiples of UNIT.
 *
 * A **block** (1 unit) is [hash u64, byte length u32, run u32]. The hash is of the block's own bytes: its place in the tree
 * says what stands before it.
 *
 * A **run** (4 units) is a chain of blocks that lie one after another in memory, with branches only at its end:
 *
 *     root ── run ─┬─ run ─┬─ run          a root is a run without blocks
 *                  │       └─ run
 *                  └─ run
 *
 * A **cover** (1 unit) says which of a run's blocks one lane holds: [from, to). A lane is a worker's blocks in one tier, those
 * that count and those that do not apart. Holes do not exist: a run is split where one would be. Blocks from `limit` on are
 * held, but hidden by a correction. A run's covers lie in one array, the one used last in front.
 *
 * A **digest** (1 unit) is of DIGEST_BLOCKS blocks of a run, as a prompt that has them has them: the hash of all their bytes, or of
 * all their hashes (FLAG_HASHED), and where the last of them ends, in bytes from the run's start. Matches make them, for the next ones.
 *
 * A **length** (1 unit) says how many of a run's children begin with a block of that many bytes: what lengths of the prompt
 * must be hashed to find the child.
 *
 * The last word of a unit that may be the first or last one of an allocated range is never FREE (heap.ts).
 */
export const UNIT: u32 = 16;

export const BLOCK_HASH: u32 = 0;
export const BLOCK_BYTES: u32 = 8;
export const BLOCK_RUN: u32 = 12;

/** First block. */
export const RUN_BLOCKS: u32 = 0;
export const RUN_LENGTH: u32 = 4;
/** Blocks from the first on that are the run's memory: room to append. */
export const RUN_ROOM: u32 = 8;
/** 0 for a root. */
export const RUN_PARENT: u32 = 12;
export const RUN_CHILDREN: u32 = 16;
/** One of its children, the likeliest to be asked for; or 0. */
export const RUN_CHILD: u32 = 20;
/** First of its lengths, or 0. */
export const RUN_LENGTHS: u32 = 24;
/** Index clock when it was last matched or stored to. */
export const RUN_TOUCHED: u32 = 28;
export const RUN_COVERS: u32 = 32;
export const RUN_COVER_COUNT: u32 = 36;
export const RUN_COVER_ROOM: u32 = 40;
export const RUN_FLAGS: u32 = 44;
/** How many digests it has, 16 bits: of its first blocks, DIGEST_BLOCKS each. */
export const RUN_DIGEST_COUNT: u32 = 46;
/** Its index in the list of runs. */
export const RUN_INDEX: u32 = 48;
/** Number of a root's key. */
export const RUN_ROOT: u32 = 52;
export const RUN_DIGESTS: u32 = 56;
export const RUN_DIGEST_ROOM: u32 = 60;
export const RUN_UNITS: u32 = 4;

/** A dead run was evicted: it is no longer in the tree, and waits until no name leads to it. */
export const FLAG_ROOT: u32 = 1;
export const FLAG_DEAD: u32 = 2;
/** Its digests are of hashes. */
export const FLAG_HASHED: u32 = 4;

export const COVER_LANE: u32 = 0;
export const COVER_FROM: u32 = 4;
export const COVER_TO: u32 = 6;
export const COVER_LIMIT: u32 = 8;
/** Number of the save that has it already. */
export const COVER_SAVED: u32 = 10;
/** Index clock when it was last stored to, below 2^31. */
export const COVER_STAMP: u32 = 12;

export const DIGEST_HASH: u32 = 0;
export const DIGEST_END: u32 = 8;
export const DIGEST_BLOCKS: u32 = 32;

/** No correction hides anything. Above every length of a run. */
export const NO_LIMIT: u32 = 0xffff;
/** Blocks a run: `from` and `to` have 16 bits. */
export const MAX_RUN: u32 = 0xfff0;

export const LENGTH_BYTES: u32 = 0;
export const LENGTH_COUNT: u32 = 4;
export const LENGTH_NEXT: u32 = 8;

/** A name leads to a place, which is a block's address in units (low 28 bits), and the tiers it is in (one bit each above). */
export const PLACE_MASK: u32 = 0x0fffffff;
export const TIER_SHIFT: u32 = 28;
export const TIERS: u32 = 4;
/** Lanes of a worker: tier × 2, plus 1 for blocks that do not count. */
export const LANES: u32 = 8;

/** A table (table.ts) of a worker's names comes first. */
export const WORKER_TABLE: u32 = 0;
/** Its small dense number. */
export const WORKER_INDEX: u32 = 12;
/** [LANES] lane + 1 by tier and class, 0 where it never stored. */
export const WORKER_LANES: u32 = 16;
/** [TIERS] names in each tier. */
export const WORKER_IN_TIER: u32 = 48;
/** Names that do not count. */
export const WORKER_UNCOUNTED: u32 = 64;
/** While it is saved: the table from places to names, or 0. */
export const WORKER_PLACES: u32 = 68;
/** Number of its last save, below 2^16. */
export const WORKER_SAVE: u32 = 72;
export const WORKER_UNITS: u32 = 5;

/**
 * What is saved is a list of pieces, some blocks of one run each:
 *
 *     u32 bytes of the piece, u32 blocks, u32 names, u32 the root's number in the chunk or NO_ROOT, u64 else the name of the
 *     block before, u64 0; then blocks × [u64 hash, u32 bytes, u32 names], and all their names ×
 *     [u64 name, u32 tiers | hidden tiers << 4, u32 1 when it does not count]
 */
export const PIECE_HEAD: u32 = 32;
export const NO_ROOT: u32 = 0xffffffff;
