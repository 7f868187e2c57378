import type { BookingExchange, RouterBookings } from "../core/booking-exchange.ts";

/** An exchange of bookings at a place that may change. */
export interface FollowingBookings extends BookingExchange {
  /** From now on there; undefined: nowhere, so each router goes on by its own book. */
  use(place: string | undefined): void;
}

/**
 * Exchange bookings where the others do: through one kvcached, which all routers must choose alike. What was heard at the place before is
 * void.
 */
export function createFollowingBookings(open: (place: string) => BookingExchange): FollowingBookings {
  let place: string | undefined;
  let current: BookingExchange | undefined;
  let hear: ((news: readonly RouterBookings[] | undefined) => void) | undefined;
  const start = (): void => {
    const mine = current;
    if (hear !== undefined) mine?.listen((news) => mine === current && hear?.(news));
  };
  return {
    use(next) {
      if (next === place) return;
      place = next;
      current?.close();
      current = next === undefined ? undefined : open(next);
      hear?.(undefined);
      start();
    },
    tell: async (workers, whole, endsTurn) => await current?.tell(workers, whole, endsTurn),
    takeTurn: async () => await current?.takeTurn(),
    listen(listener) {
      hear = listener;
      start();
    },
    close() {
      current?.close();
      current = undefined;
      hear = undefined;
    },
  };
}
