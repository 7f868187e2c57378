import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { workerId } from "../core/ids.ts";
import { Booking, LoadBook, tokensAhead, WorkerLoad } from "./load.ts";

const at = (ms: number) => ({ now: () => ms });

describe("Booking", () => {
  it("leaves a load as it was, whatever is called in whatever order and how often", () => {
    const call = fc.constantFrom("firstToken" as const, "release" as const);
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(1000), fc.array(call))), (bookings) => {
        const load = new WorkerLoad();
        const made = bookings.map(([tokens, calls]) => ({ booking: new Booking(load, tokens, at(0)), calls }));
        for (const { booking, calls } of made) for (const each of calls) booking[each]();
        expect(Math.min(load.inFlight, load.queuedTokens, load.streams)).toBeGreaterThanOrEqual(0);
        for (const { booking } of made) booking.release();
        expect([load.inFlight, load.queuedTokens, load.streams]).toEqual([0, 0, 0]);
      }),
    );
  });
});

describe("tokensAhead()", () => {
  const PER_TOKEN_MS = 0.5;
  let now = 0;
  const clock = { now: () => now };
  const book = (load: WorkerLoad, tokens: number, ms: number) => {
    now = ms;
    return new Booking(load, tokens, clock);
  };
  const ahead = (ms: number, ...loads: WorkerLoad[]) => tokensAhead(loads, PER_TOKEN_MS, ms);

  it("counts down while the oldest prompt is computed, and stops at its end", () => {
    const load = new WorkerLoad();
    book(load, 1000, 0);
    book(load, 300, 10);
    expect(ahead(10, load)).toBe(1280);
    expect(ahead(100, load)).toBe(1100);
    expect(ahead(5000, load)).toBe(300);
  });

  it("begins the next prompt when the one before is done", () => {
    const load = new WorkerLoad();
    const first = book(load, 1000, 0);
    book(load, 300, 10);
    now = 400;
    first.firstToken();
    expect(ahead(400, load)).toBe(300);
    expect(ahead(450, load)).toBe(200);
  });

  it("takes the prompts of several routers as one queue", () => {
    const [ours, theirs] = [new WorkerLoad(), new WorkerLoad()];
    book(ours, 1000, 0);
    book(theirs, 600, 100);
    // The worker computes one of them at a time.
    expect(ahead(200, ours, theirs)).toBe(1200);
    const short = book(theirs, 10, 210);
    now = 300;
    short.release();
    expect(ahead(400, ours, theirs)).toBe(1400);
  });

  it("is never negative nor above what was booked, and nothing when nobody waits", () => {
    const step = fc.record({
      tokens: fc.nat(5000),
      wait: fc.nat(1000),
      call: fc.constantFrom("firstToken" as const, "release" as const, undefined),
    });
    fc.assert(
      fc.property(fc.array(step), (steps) => {
        const load = new WorkerLoad();
        now = 0;
        const made: Booking[] = [];
        for (const { tokens, wait, call } of steps) {
          made.push(book(load, tokens, now + wait));
          if (call !== undefined) made[Math.floor(made.length / 2)]![call]();
          expect(ahead(now, load)).toBeGreaterThanOrEqual(0);
          expect(ahead(now, load)).toBeLessThanOrEqual(load.queuedTokens);
        }
        for (const booking of made) booking.release();
        expect(ahead(now, load)).toBe(0);
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
    const busy = new Booking(book.of(workerId("busy")), 1, at(0));
    book.of(workerId("idle"));
    book.of(workerId("here"));
    expect(book.sweep(new Set([workerId("here")]))).toEqual(["idle"]);
    busy.release();
    expect(book.sweep(new Set([workerId("here")]))).toEqual(["busy"]);
  });
});
