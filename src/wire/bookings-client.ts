import { createClient } from "@connectrpc/connect";
import type { BookingExchange } from "../core/booking-exchange.ts";
import type { Clock } from "../core/clock.ts";
import { bookingsToMessage, routerFromMessage } from "./bookings-message.ts";
import { Bookings } from "./gen/cgn/kv/v1/bookings_pb.ts";
import type { WireTls } from "./tls.ts";
import { type WireAddress, wireTransport } from "./transport.ts";

export interface BookingsClientOptions {
  readonly address: WireAddress;
  readonly tls?: WireTls;
  readonly clock: Clock;
  /** Of this run: what it tells is not sent back to it. */
  readonly router: string;
}

const TELL_TIMEOUT_MS = 1_000;
const RETRY_MS = 1_000;
/** A turn that takes longer is not worth waiting for. */
const TURN_TIMEOUT_MS = 50;

/** Exchange bookings through a kvcached. Nothing is sent before the first call. */
export function exchangeBookings({ address, tls, clock, router }: BookingsClientOptions): BookingExchange {
  const { transport, agent } = wireTransport(address, tls);
  const client = createClient(Bookings, transport);
  const closed = new AbortController();
  let noTurnUntil = Number.NEGATIVE_INFINITY;
  return {
    async tell(workers, whole, endsTurn = false) {
      try {
        const request = { router, workers: workers.map(bookingsToMessage), whole, endsTurn };
        await client.tell(request, { timeoutMs: TELL_TIMEOUT_MS });
      } catch {
        // The next whole book says it again.
      }
    },
    async takeTurn() {
      if (clock.now() < noTurnUntil) return undefined;
      try {
        const { others } = await client.takeTurn({ router }, { timeoutMs: TURN_TIMEOUT_MS });
        return others.map(routerFromMessage);
      } catch {
        noTurnUntil = clock.now() + RETRY_MS;
        return undefined;
      }
    },
    listen(hear) {
      const once = async (): Promise<void> => {
        try {
          for await (const { routers } of client.watchOthers({ router }, { signal: closed.signal })) {
            hear(routers.map(routerFromMessage));
          }
        } catch {
          // It is asked again below.
        }
        if (closed.signal.aborted) return;
        hear(undefined);
        clock.after(RETRY_MS, () => void once());
      };
      void once();
    },
    close() {
      closed.abort();
      agent.destroy();
    },
  };
}
