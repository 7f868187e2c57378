import { spawnSync } from "node:child_process";
import { join } from "node:path";

const HERE = import.meta.dirname;
/** Outside the sources: a build is some 500 MB. */
const TARGET = join(HERE, "..", ".cache", "peers");

/** The peers' indexes that `bench/peers` drives. */
export const PEER_INDEXES = ["smg-chain", "dynamo-radix", "dynamo-concurrent"] as const;
export type PeerIndex = (typeof PEER_INDEXES)[number];

/** A line that the Rust program prints. */
export interface PeerFigure {
  /** `stored`, `removed` or `mixed` (updates), `match 512` or `match all` (questions). */
  readonly name: string;
  /** Updates: blocks in them, and CPU nanoseconds a block. */
  readonly blocks?: number;
  readonly nsPerBlock?: number;
  /** Updates: bytes of memory that the process took meanwhile. */
  readonly grownBytes?: number;
  /** Questions: how many, CPU microseconds each, and sums that must be equal for all who do the same work. */
  readonly calls?: number;
  readonly us?: number;
  readonly workers?: number;
  readonly whole?: number;
  readonly meanDepth?: number;
}

/**
 * Compile the Rust program (1 to 2 minutes the first time; needs cargo and the crate registry).
 * @returns its path, or why there is none
 */
export function buildPeers(): { readonly program: string } | { readonly missing: string } {
  const cargo = spawnSync("cargo", ["build", "--release", "--quiet"], {
    cwd: join(HERE, "peers"),
    env: { ...process.env, CARGO_TARGET_DIR: TARGET },
    encoding: "utf8",
    timeout: 900_000,
  });
  if (cargo.error !== undefined) return { missing: `cargo cannot be run: ${cargo.error.message}` };
  if (cargo.status !== 0) return { missing: `cargo build ended with ${cargo.status}: ${cargo.stderr.trim()}` };
  return { program: join(TARGET, "release", "peers") };
}

/**
 * What a peer's index costs with an event file.
 * @param mixed - stored and removed interleaved, as in the file; else first all that store, then all that remove
 * @throws Error when the program fails
 */
export function runPeer(program: string, index: PeerIndex, file: string, mixed: boolean): PeerFigure[] {
  const run = spawnSync(program, [index, file, ...(mixed ? ["mixed"] : [])], { encoding: "utf8", timeout: 600_000 });
  if (run.status !== 0) throw new Error(`${index} ended with ${run.status ?? run.signal}: ${run.stderr}`);
  return run.stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
}
