import { type Code, compileModule, type WasmFunction, wasm } from "./wasm-code.ts";

/**
 * Hashing over a heap's memory. All arguments are byte addresses, lengths and counts; a hash is 64 bits, stored low word
 * first. A block record is 16 bytes: hash, byte length, owner.
 */
export interface BlockHash {
  /** Hash n blocks that lie one after another from `bytes` on. `ends`: [n] u32, counted from `bytes`. Writes n records' hash and length to `out`. */
  hashBlocks(bytes: number, ends: number, n: number, out: number): void;
  /** Hash one block to `out`. */
  hashOne(bytes: number, length: number, out: number): void;
  /**
   * Walk along n records as long as the bytes from `bytes` on are theirs and no block ends beyond `limit`.
   * @returns how many agree; `ends` gets the address behind each of them
   */
  matchBlocks(bytes: number, limit: number, records: number, n: number, ends: number): number;
  /** How many leading records of two lists have the same hash and length. */
  sameBlocks(a: number, b: number, n: number): number;
}

/** Secrets of one index: what to start from, and two odd factors. */
export interface HashKeys {
  readonly start: bigint;
  readonly factor1: bigint;
  readonly factor2: bigint;
}

const MASK64 = (1n << 64n) - 1n;
/** An odd factor for the length, so that blocks which are each other's beginning start apart. */
const LENGTH_FACTOR = 0x9e3779b97f4a7c15n;

/** Spread a 32-bit seed to the keys (SplitMix64's steps). */
export function hashKeys(seed: number): HashKeys {
  let state = BigInt(seed >>> 0) ^ 0x6a09e667f3bcc909n;
  const next = () => {
    state = (state + 0x9e3779b97f4a7c15n) & MASK64;
    let z = state;
    z = ((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK64;
    z = ((z ^ (z >> 27n)) * 0x94d049bb133111ebn) & MASK64;
    return z ^ (z >> 31n);
  };
  return { start: next(), factor1: next() | 1n, factor2: next() | 1n };
}

/**
 * The hash in plain arithmetic: what the WebAssembly below computes, for tests. Eight bytes a step, two multiplications
 * with secret factors (with one, a change of the top bit would pass it unchanged and could be cancelled by the next step).
 * The last step takes the last eight bytes, overlapping the one before; blocks below eight bytes are one step.
 */
export function hashPlain(keys: HashKeys, block: Uint8Array): bigint {
  const word = (from: number, to: number) => {
    let w = 0n;
    for (let i = to - 1; i >= from; i--) w = (w << 8n) | BigInt(block[i]!);
    return w;
  };
  let h = keys.start ^ ((BigInt(block.length) * LENGTH_FACTOR) & MASK64);
  const step = (w: bigint) => {
    h = ((h ^ w) * keys.factor1) & MASK64;
    h = ((h ^ (h >> 32n)) * keys.factor2) & MASK64;
  };
  for (let at = 0; at + 8 < block.length; at += 8) step(word(at, at + 8));
  step(word(Math.max(0, block.length - 8), block.length));
  return h ^ (h >> 32n);
}

/** Compile the functions for one index's keys and memory. */
export function createBlockHash(keys: HashKeys, memory: WebAssembly.Memory): BlockHash {
  const module = compileModule([hashBlocks(keys), hashOne(keys), matchBlocks(keys), SAME_BLOCKS]);
  return new WebAssembly.Instance(module, { m: { m: memory } }).exports as unknown as BlockHash;
}

const { get, set, tee, block, loop, br, brIf, load32, load64, load8, store32, store64, i32, i64 } = wasm;
const { eq32, add32, sub32, lessUnsigned32, greaterUnsigned32 } = wasm;
const { ne64, mul64, or64, xor64, shl64, shrUnsigned64, extendUnsigned } = wasm;

/** Add a constant to an i32 local. */
const advance = (local: number, by: number): Code => [get(local), i32(by), add32, set(local)];

/** Locals of the hashing code: where the block starts, its length, two scratch addresses, the hash and a scratch word. */
interface HashLocals {
  readonly from: number;
  readonly length: number;
  readonly at: number;
  readonly stop: number;
  readonly h: number;
  readonly word: number;
}

/** One step of the hash over the i64 on the stack. */
function step({ factor1, factor2 }: HashKeys, h: number): Code {
  return [
    [get(h), xor64, i64(factor1), mul64, tee(h)],
    [get(h), i64(32n), shrUnsigned64, xor64, i64(factor2), mul64, set(h)],
  ];
}

/** `h` = hash of `length` bytes at `from`. */
function hash(keys: HashKeys, { from, length, at, stop, h, word }: HashLocals): Code {
  return [
    [i64(keys.start), get(length), extendUnsigned, i64(LENGTH_FACTOR), mul64, xor64, set(h)],
    [get(length), i32(8), lessUnsigned32],
    wasm.if(
      [
        [i64(0n), set(word)],
        [get(from), get(length), add32, set(at)],
        block(
          loop(
            [get(at), get(from), eq32, brIf(1)],
            advance(at, -1),
            [get(word), i64(8n), shl64, get(at), load8(0), extendUnsigned, or64, set(word)],
            br(0),
          ),
        ),
        [get(word), step(keys, h)],
      ],
      [
        [get(from), set(at)],
        [get(from), get(length), add32, i32(8), sub32, set(stop)],
        block(
          loop(
            [get(at), get(stop), lessUnsigned32, i32(0), eq32, brIf(1)],
            [get(at), load64(0), step(keys, h)],
            advance(at, 8),
            br(0),
          ),
        ),
        [get(stop), load64(0), step(keys, h)],
      ],
    ),
    [get(h), get(h), i64(32n), shrUnsigned64, xor64, set(h)],
  ];
}

function hashOne(keys: HashKeys): WasmFunction {
  const [bytes, length, out, at, stop, h, word] = [0, 1, 2, 3, 4, 5, 6];
  return {
    name: "hashOne",
    params: 3,
    returnsI32: false,
    i32Locals: 2,
    i64Locals: 2,
    body: [hash(keys, { from: bytes, length, at, stop, h, word }), get(out), get(h), store64(0)],
  };
}

function hashBlocks(keys: HashKeys): WasmFunction {
  const [bytes, ends, n, out, from, length, at, stop, h, word] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
  return {
    name: "hashBlocks",
    params: 4,
    returnsI32: false,
    i32Locals: 4,
    i64Locals: 2,
    body: [
      [get(bytes), set(from)],
      block(
        loop(
          [get(n), i32(0), eq32, brIf(1)],
          [get(bytes), get(ends), load32(0), add32, get(from), sub32, set(length)],
          hash(keys, { from, length, at, stop, h, word }),
          [get(out), get(h), store64(0), get(out), get(length), store32(8)],
          [get(from), get(length), add32, set(from)],
          advance(ends, 4),
          advance(out, 16),
          advance(n, -1),
          br(0),
        ),
      ),
    ],
  };
}

function matchBlocks(keys: HashKeys): WasmFunction {
  const [bytes, limit, records, n, ends, count, length, at, stop, h, word] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
  return {
    name: "matchBlocks",
    params: 5,
    returnsI32: true,
    i32Locals: 4,
    i64Locals: 2,
    body: [
      block(
        loop(
          [get(count), get(n), eq32, brIf(1)],
          [get(records), load32(8), tee(length), get(limit), get(bytes), sub32, greaterUnsigned32, brIf(1)],
          hash(keys, { from: bytes, length, at, stop, h, word }),
          [get(h), get(records), load64(0), ne64, brIf(1)],
          [get(bytes), get(length), add32, set(bytes)],
          [get(ends), get(bytes), store32(0)],
          advance(ends, 4),
          advance(records, 16),
          advance(count, 1),
          br(0),
        ),
      ),
      get(count),
    ],
  };
}

const SAME_BLOCKS: WasmFunction = {
  name: "sameBlocks",
  params: 3,
  returnsI32: true,
  i32Locals: 1,
  i64Locals: 0,
  body: [
    block(
      loop(
        [get(3), get(2), eq32, brIf(1)],
        [get(0), load64(0), get(1), load64(0), ne64, brIf(1)],
        [get(0), load32(8), get(1), load32(8), eq32, i32(0), eq32, brIf(1)],
        [advance(0, 16), advance(1, 16), advance(3, 1), br(0)],
      ),
    ),
    get(3),
  ],
};
