import { encode } from "@msgpack/msgpack";
import fc from "fast-check";
import { expect, it } from "vitest";
import { isCgnError } from "../core/errors.ts";
import type { KvEventBatch } from "../core/kv-event.ts";

type Decode = (payload: Uint8Array) => KvEventBatch;

const CASES = {
  "reads every captured frame": (decode, frames) => {
    expect(frames.length).toBeGreaterThan(0);
    for (const frame of frames) expect(decode(frame).ts).toBeGreaterThan(0);
  },
  "gives each stored block its tokens": (decode, frames) => {
    for (const event of frames.flatMap((f) => decode(f).events)) {
      if (event.type === "stored") expect(event.tokenIds.length).toBe(event.names.length * event.blockTokens);
    }
  },
  "names blocks by unsigned 64-bit numbers": (decode, frames) => {
    for (const event of frames.flatMap((f) => decode(f).events)) {
      if (event.type === "cleared") continue;
      expect(event.names.every((name) => typeof name === "bigint" && name >= 0n && name < 1n << 64n)).toBe(true);
    }
  },
  "refuses a frame cut anywhere": (decode, frames) => {
    const frame = frames[0] ?? new Uint8Array();
    for (let end = 0; end < frame.length; end += Math.max(1, Math.floor(frame.length / 64))) {
      expect(outcome(decode, frame.subarray(0, end)), `cut at byte ${end}`).toBe("EVENTS_MALFORMED");
    }
  },
  "refuses random bytes": (decode) =>
    fc.assert(fc.property(fc.uint8Array(), (bytes) => ["EVENTS_MALFORMED", "ok"].includes(outcome(decode, bytes)))),
  "refuses random values in a batch": (decode) =>
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (a, b) => {
        const bytes = encode([1, [a, ["BlockStored", a, b], { type: "BlockStored", block_hashes: [1], token_ids: b }]]);
        return ["EVENTS_MALFORMED", "ok"].includes(outcome(decode, bytes));
      }),
    ),
} as const satisfies Record<string, (decode: Decode, frames: readonly Uint8Array[]) => void>;

export type EventCase = keyof typeof CASES;

/** Run the rules of an engine's event decoder on payloads that a real engine published. Skips as in `runLaunchCases()`. */
export function runEventCases(
  name: string,
  decode: Decode,
  frames: readonly Uint8Array[],
  skip: Partial<Record<EventCase, string>> = {},
): void {
  for (const [title, check] of Object.entries(CASES)) {
    const reason = skip[title as EventCase];
    it(`${name} events ${title}${reason === undefined ? "" : ` (not: ${reason})`}`, () => {
      if (reason === undefined) return void check(decode, frames);
      expect(() => check(decode, frames), `passes now: remove the skip "${reason}"`).toThrow();
    });
  }
}

function outcome(decode: Decode, bytes: Uint8Array): string {
  try {
    decode(bytes);
    return "ok";
  } catch (e) {
    return isCgnError(e) ? e.code : `${e}`;
  }
}
