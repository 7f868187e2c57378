/**
 * The hash of a block's bytes, 64 bits, keyed by the index's seed. The middle is the NH construction (Black et al., UMAC,
 * CRYPTO 1999): 32-bit words plus secret words, multiplied in pairs and summed. It is done 32 bytes a step with SIMD; steps and
 * blocks do not wait for each other. For two blocks of one length the sums agree with a chance of 2^-32 at most, whatever
 * they are, for whoever does not know the seed.
 */

/** Secret words: STRIPE bytes for the body, 32 for the end. */
const STRIPE: u32 = 256;
const keys: u32 = <u32>memory.data(288, 16);
const LENGTH_FACTOR: u64 = 0x9e3779b97f4a7c15;
let start: u64 = 0;
let factor1: u64 = 1;
let factor2: u64 = 1;
let state: u64 = 0;

/** SplitMix64. */
function next(): u64 {
  state += 0x9e3779b97f4a7c15;
  let z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

export function seedHash(seed: u32): void {
  state = <u64>seed ^ 0x6a09e667f3bcc909;
  start = next();
  factor1 = next() | 1;
  factor2 = next() | 1;
  for (let at: u32 = 0; at < STRIPE + 32; at += 8) store<u64>(keys + at, next());
}

/** Stir one word in. */
function mix(h: u64, w: u64): u64 {
  h = (h ^ w) * factor1;
  return (h ^ (h >> 32)) * factor2;
}

function products(a: v128, b: v128): v128 {
  return i64x2.add(i64x2.extmul_low_i32x4_u(a, b), i64x2.extmul_high_i32x4_u(a, b));
}

function fold(h: u64, sums: v128): u64 {
  return mix(mix(h, i64x2.extract_lane(sums, 0)), i64x2.extract_lane(sums, 1));
}

function hashShort(at: u32, length: u32, h: u64): u64 {
  if (length >= 8) h = mix(mix(h, load<u64>(at)), load<u64>(at + length - 8));
  else {
    let w: u64 = 0;
    for (let i = length; i > 0; i--) w = (w << 8) | load<u8>(at + i - 1);
    h = mix(h, w);
  }
  return h ^ (h >> 32);
}

/** The hash of `length` bytes at `at`. */
export function hashBytes(at: u32, length: u32): u64 {
  let h = start ^ (<u64>length * LENGTH_FACTOR);
  if (length < 16) return hashShort(at, length, h);
  const end = at + length;
  let sums = i64x2.splat(0);
  if (length >= 32) {
    let key = keys;
    while (at < end - 32) {
      sums = i64x2.add(
        sums,
        products(i32x4.add(v128.load(at), v128.load(key)), i32x4.add(v128.load(at, 16), v128.load(key, 16))),
      );
      at += 32;
      key += 32;
      if (key === keys + STRIPE) {
        h = fold(h, sums);
        sums = i64x2.splat(0);
        key = keys;
      }
    }
    at = end - 32;
  }
  // The last 32 bytes, or all: both halves overlap then.
  sums = i64x2.add(
    sums,
    products(i32x4.add(v128.load(at), v128.load(keys, 256)), i32x4.add(v128.load(end - 16), v128.load(keys, 272))),
  );
  h = fold(h, sums);
  return h ^ (h >> 32);
}
