import { describe, expect, it } from "vitest";
import type { BookingExchange, WorkerBookings } from "../core/booking-exchange.ts";
import { workerId } from "../core/ids.ts";
import { Booking, LoadBook } from "../routing/load.ts";
import { BookShare } from "./book-share.ts";
import { handClock } from "./testing/hand-clock.ts";

function rig() {
  const clock = handClock();
  const loads = new LoadBook();
  const told: { readonly workers: readonly WorkerBookings[]; readonly whole: boolean }[] = [];
  let arrive: (() => void)[] = [];
  let closed = false;
  const exchange: BookingExchange = {
    tell: (workers, whole) =>
      new Promise((resolve) => {
        told.push({ workers, whole });
        arrive.push(resolve);
      }),
    listen() {},
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
  return { clock, told, share, book, settle, isClosed: () => closed };
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
