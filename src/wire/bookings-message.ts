import type { RouterBookings, WorkerBookings } from "../core/booking-exchange.ts";
import { workerId } from "../core/ids.ts";
import type { WorkerBookings as WorkerBookingsMessage } from "./gen/cgn/kv/v1/bookings_pb.ts";

/** Counts on the wire have 32 bits. */
const MOST = 2 ** 32 - 1;

type Fields = Omit<WorkerBookingsMessage, "$typeName" | "$unknown">;

export function bookingsToMessage(b: WorkerBookings): Fields {
  return {
    worker: b.worker,
    inFlight: count(b.inFlight),
    queuedTokens: count(b.queuedTokens),
    streams: count(b.streams),
    headTokens: count(b.headTokens),
    headAgeMs: Math.max(0, b.headAgeMs),
    ...(b.doneAgeMs === undefined ? {} : { doneAgeMs: Math.max(0, b.doneAgeMs) }),
  };
}

/** Ages that are no numbers are taken for 0: a message from elsewhere must not spoil predictions. */
export function bookingsFromMessage(m: Fields): WorkerBookings {
  return {
    worker: workerId(m.worker),
    inFlight: m.inFlight,
    queuedTokens: m.queuedTokens,
    streams: m.streams,
    headTokens: Math.min(m.headTokens, m.queuedTokens),
    headAgeMs: age(m.headAgeMs),
    doneAgeMs: m.doneAgeMs === undefined ? undefined : age(m.doneAgeMs),
  };
}

export function routerToMessage({ router, workers, whole, gone = false }: RouterBookings) {
  return { router, workers: workers.map(bookingsToMessage), whole, gone };
}

export function routerFromMessage(m: {
  readonly router: string;
  readonly workers: readonly Fields[];
  readonly whole: boolean;
  readonly gone: boolean;
}): RouterBookings {
  const workers = m.workers.map(bookingsFromMessage);
  return { router: m.router, workers, whole: m.whole, ...(m.gone ? { gone: true } : {}) };
}

const count = (value: number): number => Math.min(MOST, Math.max(0, Math.round(value)));
const age = (ms: number): number => (Number.isFinite(ms) && ms > 0 ? ms : 0);
