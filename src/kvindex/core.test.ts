import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { AREA, Core } from "./core.ts";

const MASK64 = (1n << 64n) - 1n;

/** SplitMix64. */
function* words(seed: number): Generator<bigint> {
  let state = BigInt(seed >>> 0) ^ 0x6a09e667f3bcc909n;
  for (;;) {
    state = (state + 0x9e3779b97f4a7c15n) & MASK64;
    let z = state;
    z = ((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK64;
    z = ((z ^ (z >> 27n)) * 0x94d049bb133111ebn) & MASK64;
    yield z ^ (z >> 31n);
  }
}

/** The hash in plain arithmetic: NH sums of 32-bit words in two lanes, stripes of 256 bytes, the last 32 bytes with other keys. */
function hashPlain(seed: number, block: Uint8Array): bigint {
  const source = words(seed);
  const next = () => source.next().value as bigint;
  const start = next();
  const factor1 = next() | 1n;
  const factor2 = next() | 1n;
  const keys = new Uint32Array(BigUint64Array.from({ length: 36 }, next).buffer);
  const mix = (h: bigint, w: bigint) => {
    h = ((h ^ w) * factor1) & MASK64;
    return ((h ^ (h >> 32n)) * factor2) & MASK64;
  };
  const word = (at: number, bytes: number) => {
    let w = 0n;
    for (let i = bytes - 1; i >= 0; i--) w = (w << 8n) | BigInt(block[at + i]!);
    return w;
  };
  const size = block.length;
  let h = start ^ ((BigInt(size) * 0x9e3779b97f4a7c15n) & MASK64);
  if (size < 8) h = mix(h, word(0, size));
  else if (size < 16) h = mix(mix(h, word(0, 8)), word(size - 8, 8));
  if (size < 16) return h ^ (h >> 32n);
  let lanes = [0n, 0n];
  const add = (a: number, b: number, key: number) => {
    for (let i = 0; i < 4; i++) {
      const x = BigInt((Number(word(a + 4 * i, 4)) + keys[key + i]!) >>> 0);
      const y = BigInt((Number(word(b + 4 * i, 4)) + keys[key + 4 + i]!) >>> 0);
      lanes[i % 2] = (lanes[i % 2]! + x * y) & MASK64;
    }
  };
  const fold = () => {
    h = mix(mix(h, lanes[0]!), lanes[1]!);
    lanes = [0n, 0n];
  };
  for (let at = 0; at < size - 32; at += 32) {
    add(at, at + 16, (at % 256) / 4);
    if (at % 256 === 224) fold();
  }
  add(Math.max(0, size - 32), size - 16, 64);
  fold();
  return h ^ (h >> 32n);
}

describe("Core", () => {
  it("hashBytes() computes what plain arithmetic says, at any alignment and length", () => {
    const core = new Core(1 << 24, 42);
    const at = core.room(AREA.bytes, 4096);
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 700, size: "max" }), fc.nat(15), (block, shift) => {
        core.bytes.set(block, at + shift);
        expect(BigInt.asUintN(64, core.calls.hashBytes(at + shift, block.length))).toBe(hashPlain(42, block));
      }),
    );
  });

  it("hashBytes() gives other hashes for another seed and another byte", () => {
    const of = (seed: number, block: Uint8Array) => {
      const core = new Core(1 << 24, seed);
      const at = core.room(AREA.bytes, block.length);
      core.bytes.set(block, at);
      return core.calls.hashBytes(at, block.length);
    };
    const block = Uint8Array.from({ length: 64 }, (_, i) => i);
    const found = new Set([of(1, block), of(2, block)]);
    for (let i = 0; i < block.length; i++) found.add(of(1, block.with(i, 99)));
    expect(found.size).toBe(2 + block.length);
  });

  it("views see what was written after the memory grew", () => {
    const core = new Core(1 << 28, 1);
    core.room(AREA.bytes, 1);
    const before = core.bytes.length;
    const at = core.room(AREA.bytes, 2 * before);
    core.bytes[at + 2 * before - 1] = 7;
    expect(core.bytes.length).toBeGreaterThan(before);
    expect(core.words[(at + 2 * before) / 4 - 1]! >>> 24).toBe(7);
  });
});
