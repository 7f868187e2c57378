import { describe, expect, it } from "vitest";
import type { RouterBookings, WorkerBookings } from "../core/booking-exchange.ts";
import type { Clock } from "../core/clock.ts";
import { workerId } from "../core/ids.ts";
import { BookingHub } from "./booking-hub.ts";

function handClock(): Clock & { pass(ms: number): void } {
  let now = 0;
  let timers: { readonly at: number; readonly fn: () => void }[] = [];
  return {
    now: () => now,
    wall: () => now,
    after(ms, fn) {
      const timer = { at: now + ms, fn };
      timers.push(timer);
      return () => {
        timers = timers.filter((each) => each !== timer);
      };
    },
    pass(ms) {
      for (const end = now + ms; ; ) {
        const next = timers.filter(({ at }) => at <= end).sort((a, b) => a.at - b.at)[0];
        now = next?.at ?? end;
        if (next === undefined) return;
        timers = timers.filter((each) => each !== next);
        next.fn();
      }
    },
  };
}

const book = (worker: string, inFlight: number): WorkerBookings => ({
  worker: workerId(worker),
  inFlight,
  queuedTokens: 0,
  streams: inFlight,
  headTokens: 0,
  headAgeMs: 0,
  doneAgeMs: undefined,
});

/** What a watcher gets, one message after the other. */
function watch(hub: BookingHub, router: string) {
  const stop = new AbortController();
  const stream = hub.watchOthers(router, stop.signal);
  return {
    next: async () => (await stream.next()).value as readonly RouterBookings[] | undefined,
    stop: () => stop.abort(),
  };
}

describe("BookingHub", () => {
  it("passes on what others tell, at first all of it, and never a router's own", async () => {
    const hub = new BookingHub(handClock());
    hub.tell({ router: "a", workers: [book("w", 1)], whole: false });
    hub.tell({ router: "b", workers: [book("w", 2)], whole: false });
    const watcher = watch(hub, "a");
    expect(await watcher.next()).toEqual([{ router: "b", workers: [book("w", 2)], whole: true }]);
    const news = watcher.next();
    hub.tell({ router: "a", workers: [book("w", 9)], whole: false });
    hub.tell({ router: "b", workers: [book("v", 3)], whole: false });
    expect(await news).toEqual([{ router: "b", workers: [book("v", 3)], whole: false }]);
    const end = watcher.next();
    watcher.stop();
    expect(await end).toBeUndefined();
    hub.close();
  });

  it("gives a slow watcher the last word of each worker only", async () => {
    const hub = new BookingHub(handClock());
    const watcher = watch(hub, "a");
    const first = watcher.next();
    hub.tell({ router: "b", workers: [book("w", 0)], whole: false });
    await first;
    for (let i = 1; i <= 1000; i++) hub.tell({ router: "b", workers: [book("w", i)], whole: false });
    expect(await watcher.next()).toEqual([{ router: "b", workers: [book("w", 1000)], whole: false }]);
    hub.close();
  });

  it("lets one router choose at a time, in the order in which they ask, each with what the one before booked", async () => {
    const hub = new BookingHub(handClock());
    const { signal } = new AbortController();
    const order: string[] = [];
    const turn = async (router: string) => {
      const others = await hub.takeTurn(router, signal);
      order.push(router);
      return others;
    };
    expect(await turn("a")).toEqual([]);
    const left = new AbortController();
    const [b, gone, c] = [turn("b"), hub.takeTurn("x", left.signal), turn("c")];
    left.abort();
    expect(await gone).toEqual([]);
    hub.tell({ router: "c", workers: [book("w", 5)], whole: false }, true);
    expect(order).toEqual(["a"]);
    hub.tell({ router: "a", workers: [book("w", 1)], whole: false }, true);
    expect((await b).map(({ router }) => router)).toEqual(["c", "a"]);
    hub.tell({ router: "b", workers: [book("v", 1)], whole: false }, true);
    expect((await c).map(({ router }) => router)).toEqual(["a", "b"]);
    expect(order).toEqual(["a", "b", "c"]);
    hub.close();
  });

  it("ends a turn by itself after 20 ms, so that a router that hangs holds nobody up", async () => {
    const clock = handClock();
    const hub = new BookingHub(clock);
    const { signal } = new AbortController();
    await hub.takeTurn("hangs", signal);
    const next = hub.takeTurn("b", signal);
    clock.pass(20);
    expect(await next).toEqual([]);
    // Late: it has no turn any more, and ends nobody else's.
    const third = hub.takeTurn("c", signal);
    hub.tell({ router: "hangs", workers: [], whole: true }, true);
    let isGiven = false;
    void third.then(() => {
      isGiven = true;
    });
    await Promise.resolve();
    expect(isGiven).toBe(false);
    hub.tell({ router: "b", workers: [], whole: true }, true);
    await third;
    hub.close();
  });

  it("says that a router is gone that was silent for 3 s, and keeps one that tells", async () => {
    const clock = handClock();
    const hub = new BookingHub(clock);
    const watcher = watch(hub, "a");
    const first = watcher.next();
    hub.tell({ router: "b", workers: [book("w", 1)], whole: true });
    hub.tell({ router: "c", workers: [book("w", 1)], whole: true });
    await first;
    const kept = watcher.next();
    clock.pass(2000);
    hub.tell({ router: "c", workers: [], whole: true });
    await kept;
    const news = watcher.next();
    clock.pass(2000);
    expect(await news).toEqual([{ router: "b", workers: [], whole: true, gone: true }]);
    hub.close();
  });
});
