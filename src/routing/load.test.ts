import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { workerId } from "../core/ids.ts";
import { Booking, LoadBook, WorkerLoad } from "./load.ts";

describe("Booking", () => {
  it("leaves a load as it was, whatever is called in whatever order and how often", () => {
    const call = fc.constantFrom("firstToken" as const, "release" as const);
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(1000), fc.array(call))), (bookings) => {
        const load = new WorkerLoad();
        const made = bookings.map(([tokens, calls]) => ({ booking: new Booking(load, tokens, 0), calls }));
        for (const { booking, calls } of made) for (const each of calls) booking[each]();
        expect(Math.min(load.inFlight, load.queuedTokens, load.streams)).toBeGreaterThanOrEqual(0);
        for (const { booking } of made) booking.release();
        expect([load.inFlight, load.queuedTokens, load.streams]).toEqual([0, 0, 0]);
      }),
    );
  });
});

describe("WorkerLoad", () => {
  it("placed() fades by half in ten minutes, and is nothing once emptied", () => {
    const load = new WorkerLoad();
    load.place(1000, 0);
    expect(load.placed(600_000)).toBeCloseTo(500, 6);
    load.place(100, 600_000);
    expect(load.placed(600_000)).toBeCloseTo(600, 6);
    load.emptied();
    expect(load.placed(600_000)).toBe(0);
  });
});

describe("LoadBook", () => {
  it("lost() ends every leg of that worker only", () => {
    const book = new LoadBook();
    const ended: string[] = [];
    for (const id of ["a", "a", "b"]) {
      book.of(workerId(id)).legs.add({ lost: (reason) => void ended.push(`${id} ${reason}`) });
    }
    book.lost(workerId("a"), "gone");
    expect(ended).toEqual(["a gone", "a gone"]);
  });

  it("sweep() drops idle workers that are gone, and keeps those with requests", () => {
    const book = new LoadBook();
    const busy = new Booking(book.of(workerId("busy")), 1, 0);
    book.of(workerId("idle"));
    book.of(workerId("here"));
    expect(book.sweep(new Set([workerId("here")]))).toEqual(["idle"]);
    busy.release();
    expect(book.sweep(new Set([workerId("here")]))).toEqual(["busy"]);
  });
});
