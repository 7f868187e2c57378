import { describe, expect, it } from "vitest";
import { SIDE_PORTS } from "./engine.ts";
import { consolidatorOffset, MAX_EVENT_RANKS, MAX_TRANSFER_RANKS, SIDE_PORT, sidePort } from "./side-ports.ts";

describe("SIDE_PORT", () => {
  it("SIDE_PORT keeps every port of every rank apart, inside the range", () => {
    const ranks = (first: number, count: number): number[] => Array.from({ length: count }, (_, i) => first + i);
    const { kvEvents, kvReplay, nixlSideChannel, kvbmPub, kvbmAck, ...single } = SIDE_PORT;
    const all = [
      ...ranks(kvEvents, MAX_EVENT_RANKS),
      ...ranks(kvReplay, MAX_EVENT_RANKS),
      ...ranks(nixlSideChannel, MAX_TRANSFER_RANKS),
      ...ranks(kvbmPub, 2 * MAX_TRANSFER_RANKS),
      ...Object.values(single),
    ];
    expect(kvbmAck).toBe(kvbmPub + 1);
    expect(new Set(all).size).toBe(all.length);
    expect(Math.max(...all)).toBeLessThan(SIDE_PORTS);
  });

  it("SIDE_PORT leaves free where another engine's KVBM consolidator lands", () => {
    expect(consolidatorOffset()).toBe(SIDE_PORT.kvbmConsolidatorOfOther);
  });

  it("sidePort() adds the slot's base", () => {
    expect(sidePort({ sidePortBase: 20_000 }, "bootstrap")).toBe(20_016);
  });
});
