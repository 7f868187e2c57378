import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { workerId } from "../core/ids.ts";
import { Booking, tokensAhead, WorkerLoad } from "./load.ts";
import { bookingsOf, OtherBooks } from "./other-books.ts";

const A = workerId("a");
const clockAt = (ms: number) => ({ now: () => ms });

describe("OtherBooks", () => {
  it("of() is what the other router has, on this process's clock", () => {
    const theirs = new WorkerLoad();
    new Booking(theirs, 1000, clockAt(500));
    const books = new OtherBooks();
    // Their clock says 600 where ours says 50.
    books.hear([{ router: "r", workers: [bookingsOf(A, theirs, 600)], whole: false }], 50);
    expect(tokensAhead(books.of(A), 1, 50)).toBe(900);
    expect(tokensAhead(books.of(A), 1, 150)).toBe(800);
    expect(books.of(workerId("b"))).toEqual([]);
  });

  it("hear() takes a whole book for all there is, and forgets a router that is gone, or all when nothing is known", () => {
    const load = new WorkerLoad();
    new Booking(load, 10, clockAt(0));
    const book = (id: string) => bookingsOf(workerId(id), load, 0);
    const books = new OtherBooks();
    books.hear([{ router: "r", workers: [book("a"), book("b")], whole: false }], 0);
    books.hear([{ router: "s", workers: [book("a")], whole: true }], 0);
    expect([books.of(A).length, books.of(workerId("b")).length]).toEqual([2, 1]);
    books.hear([{ router: "r", workers: [book("b")], whole: true }], 0);
    expect([books.of(A).length, books.of(workerId("b")).length]).toEqual([1, 1]);
    books.hear([{ router: "r", workers: [], whole: true }], 0);
    expect([books.routers, books.of(workerId("b")).length]).toEqual([2, 0]);
    books.hear([{ router: "r", workers: [], whole: true, gone: true }], 0);
    expect([books.routers, books.of(workerId("b")).length]).toEqual([1, 0]);
    books.hear(undefined, 0);
    expect([books.routers, books.of(A).length]).toEqual([0, 0]);
  });

  it("of() sums to what is booked, whatever is told in whatever order", () => {
    const step = fc.record({ router: fc.constantFrom("r", "s"), tokens: fc.integer({ min: 1, max: 999 }) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
        const loads = { r: new WorkerLoad(), s: new WorkerLoad() };
        const books = new OtherBooks();
        for (const { router, tokens } of steps) {
          new Booking(loads[router as "r"], tokens, clockAt(0));
          const told = bookingsOf(A, loads[router as "r"], 0);
          books.hear([{ router, workers: [told], whole: tokens % 2 === 0 }], 0);
        }
        const sum = steps.reduce((total, { tokens }) => total + tokens, 0);
        expect(tokensAhead(books.of(A), 1, 0)).toBe(sum);
      }),
    );
  });
});
