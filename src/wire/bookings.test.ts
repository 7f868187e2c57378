import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import type { RouterBookings, WorkerBookings } from "../core/booking-exchange.ts";
import type { Clock } from "../core/clock.ts";
import { workerId } from "../core/ids.ts";
import { exchangeBookings } from "./bookings-client.ts";
import { bookingsFromMessage, bookingsToMessage } from "./bookings-message.ts";
import { bookingsRoutes } from "./bookings-server.ts";
import { listenWire } from "./listen.ts";

const dir = await mkdtemp(join(tmpdir(), "cgn-bookings-"));
afterAll(() => rm(dir, { recursive: true }));
const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

const clock: Clock = {
  now: () => performance.now(),
  wall: () => Date.now(),
  after(ms, fn) {
    const timer = setTimeout(fn, ms);
    return () => clearTimeout(timer);
  },
};

const BOOK: WorkerBookings = {
  worker: workerId("n/m"),
  inFlight: 3,
  queuedTokens: 1200,
  streams: 1,
  headTokens: 800,
  headAgeMs: 12.5,
  doneAgeMs: undefined,
};

describe("exchangeBookings()", () => {
  it("tells a server and listens to what it says, until the connection ends", async () => {
    const told: RouterBookings[] = [];
    const news: RouterBookings = { router: "other", workers: [{ ...BOOK, doneAgeMs: 4 }], whole: true };
    const asked: string[] = [];
    const service = {
      tell: (each: RouterBookings, endsTurn: boolean) => void told.push(endsTurn ? { ...each, router: "ends" } : each),
      takeTurn: async () => [news],
      async *watchOthers(router: string) {
        asked.push(router);
        yield [news];
      },
    };
    const uds = join(dir, "kv.sock");
    const server = await listenWire({ routes: bookingsRoutes(service), uds });
    ends.push(() => server.close());
    const exchange = exchangeBookings({ address: { uds }, clock, router: "r1" });
    ends.push(() => exchange.close());
    const heard: (readonly RouterBookings[] | undefined)[] = [];
    const ended = new Promise<void>((resolve) =>
      exchange.listen((each) => {
        heard.push(each);
        if (each === undefined) resolve();
      }),
    );
    await exchange.tell([BOOK], true);
    expect(await exchange.takeTurn()).toEqual([news]);
    await exchange.tell([], false, true);
    await ended;
    expect(told).toEqual([
      { router: "r1", workers: [BOOK], whole: true },
      { router: "ends", workers: [], whole: false },
    ]);
    expect([asked[0], heard]).toEqual(["r1", [[news], undefined]]);
  });

  it("tell() and takeTurn() resolve although nobody is there", async () => {
    const exchange = exchangeBookings({ address: { uds: join(dir, "nobody.sock") }, clock, router: "r" });
    ends.push(() => exchange.close());
    await expect(exchange.tell([BOOK], false)).resolves.toBeUndefined();
    await expect(exchange.takeTurn()).resolves.toBeUndefined();
  });
});

describe("bookingsFromMessage()", () => {
  it("takes ages that are no numbers for 0, and no head beyond its queue", () => {
    const read = (over: object) => bookingsFromMessage({ ...bookingsToMessage(BOOK), ...over });
    expect(read({ headAgeMs: Number.NaN, doneAgeMs: Number.NEGATIVE_INFINITY, headTokens: 9_999 })).toMatchObject({
      headAgeMs: 0,
      doneAgeMs: 0,
      headTokens: 1200,
    });
    expect(read({})).toEqual(BOOK);
  });
});
