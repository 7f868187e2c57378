import { describe, expect, it } from "vitest";
import type { BookingExchange, RouterBookings, WorkerBookings } from "../core/booking-exchange.ts";
import { workerId } from "../core/ids.ts";
import { Booking, LoadBook } from "../routing/load.ts";
import { bookingsOf } from "../routing/other-books.ts";
import { BookShare } from "./book-share.ts";
import { handClock } from "./testing/hand-clock.ts";

function rig() {
  const clock = handClock();
  const loads = new LoadBook();
  const told: { readonly workers: readonly WorkerBookings[]; readonly whole: boolean; readonly endsTurn: boolean }[] =
    [];
  const turns: ((news: readonly RouterBookings[] | undefined) => void)[] = [];
  let hear: (news: readonly RouterBookings[] | undefined) => void = () => {};
  let arrive: (() => void)[] = [];
  let closed = false;
  const exchange: BookingExchange = {
    takeTurn: () => new Promise((resolve) => turns.push(resolve)),
    tell: (workers, whole, endsTurn = false) =>
      new Promise((resolve) => {
        told.push({ workers, whole, endsTurn });
        arrive.push(resolve);
      }),
    listen(listener) {
      hear = listener;
    },
    close() {
      closed = true;
    },
  };
  const share = new BookShare(exchange, loads, clock);
  const book = (id: string) => new Booking(loads.of(workerId(id)), 10, clock);
  const settle = async () => {
    for (const each of arrive) each();
    arrive = [];
    await new Promise((resolve) => setImmediate(resolve));
  };
  const other = (inFlight: number): RouterBookings => {
    const load = new LoadBook().of(workerId("a"));
    for (let i = 0; i < inFlight; i++) new Booking(load, 10, clock);
    return { router: "other", workers: [bookingsOf(workerId("a"), load, 0)], whole: true };
  };
  return { clock, told, turns, share, book, settle, other, hear: () => hear, isClosed: () => closed };
}

describe("BookShare", () => {
  it("tells a booking at once, and what changes meanwhile with the next message", async () => {
    const { told, book, settle } = rig();
    await settle();
    book("a");
    await settle();
    expect(told.at(-1)).toMatchObject({ whole: false, workers: [{ worker: "a", inFlight: 1 }] });
    book("a");
    await new Promise((resolve) => setImmediate(resolve));
    const before = told.length;
    // That one is under way.
    for (let i = 0; i < 50; i++) book(i % 2 === 0 ? "a" : "b");
    expect(told.length).toBe(before);
    await settle();
    expect(told.length).toBe(before + 1);
    expect(told.at(-1)!.workers.map(({ worker, inFlight }) => [worker, inFlight])).toEqual([
      ["a", 27],
      ["b", 25],
    ]);
  });

  it("turn() asks for none while there are no others, and one for all who ask meanwhile", async () => {
    const { told, turns, share, book, settle, other, hear } = rig();
    await settle();
    expect(share.turn()).toBeUndefined();
    hear()([other(1)]);
    const seen: number[] = [];
    const choose = async (id: string) => {
      await share.turn();
      seen.push(share.others.of(workerId("a"))[0]!.inFlight);
      book(id);
    };
    const both = [choose("a"), choose("b")];
    expect(turns).toHaveLength(1);
    const before = told.length;
    turns[0]!([other(7)]);
    await Promise.all(both);
    expect([seen, told.length]).toEqual([[7, 7], before]);
    await settle();
    expect(told.at(-1)).toMatchObject({ endsTurn: true, workers: [{ worker: "a" }, { worker: "b" }] });
    // Nobody there to ask: it goes on by its own book.
    const alone = share.turn();
    turns[1]!(undefined);
    await alone;
    await settle();
    expect(told.filter(({ endsTurn }) => endsTurn)).toHaveLength(1);
  });

  it("tells the whole book each second, and nothing once it is closed", async () => {
    const { told, book, settle, clock, share, isClosed } = rig();
    await settle();
    book("a");
    const over = book("b");
    over.release();
    await settle();
    await settle();
    await clock.pass(1000);
    await settle();
    expect(told.at(-1)).toMatchObject({ whole: true, workers: [{ worker: "a" }] });
    const before = told.length;
    share.close();
    book("a");
    await clock.pass(5000);
    await settle();
    expect([told.length, isClosed()]).toEqual([before, true]);
  });
});
