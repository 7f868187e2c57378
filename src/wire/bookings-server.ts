import { Code, ConnectError, type ConnectRouter } from "@connectrpc/connect";
import type { RouterBookings } from "../core/booking-exchange.ts";
import { bookingsFromMessage, routerToMessage } from "./bookings-message.ts";
import { Bookings } from "./gen/cgn/kv/v1/bookings_pb.ts";

/** What stands behind the `cgn.kv.v1.Bookings` service. */
export interface BookingsService {
  /** @param endsTurn another router may choose now */
  tell(news: RouterBookings, endsTurn: boolean): void;
  /** Resolves when this router may choose, with what the others have; when `signal` aborts before, it is passed over. */
  takeTurn(router: string, signal: AbortSignal): Promise<readonly RouterBookings[]>;
  /** What routers but this one have, then each change; it ends with `signal`. */
  watchOthers(router: string, signal: AbortSignal): AsyncIterable<readonly RouterBookings[]>;
}

const MAX_NAME = 200;
/** More than any fleet; who sends more is no router. */
const MAX_WORKERS = 10_000;

/** The routes of `cgn.kv.v1.Bookings`. */
export function bookingsRoutes(service: BookingsService): (router: ConnectRouter) => void {
  return (routes) => {
    routes.service(Bookings, {
      tell({ router, workers, whole, endsTurn }) {
        checkName(router);
        if (workers.length > MAX_WORKERS) {
          const message = `Cannot take bookings on ${workers.length} workers: at most ${MAX_WORKERS} are. Send those that changed`;
          throw new ConnectError(message, Code.ResourceExhausted);
        }
        service.tell({ router, workers: workers.map(bookingsFromMessage), whole }, endsTurn);
        return {};
      },
      async takeTurn({ router }, { signal }) {
        checkName(router);
        return { others: (await service.takeTurn(router, signal)).map(routerToMessage) };
      },
      async *watchOthers({ router }, { signal }) {
        checkName(router);
        for await (const news of service.watchOthers(router, signal)) yield { routers: news.map(routerToMessage) };
      },
    });
  };
}

function checkName(router: string): void {
  if (router !== "" && router.length <= MAX_NAME) return;
  throw new ConnectError(
    `Cannot take bookings: the router's name has ${router.length} characters`,
    Code.InvalidArgument,
  );
}
