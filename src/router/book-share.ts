import type { BookingExchange } from "../core/booking-exchange.ts";
import type { Clock } from "../core/clock.ts";
import type { WorkerId } from "../core/ids.ts";
import type { LoadBook } from "../routing/load.ts";
import { bookingsOf, OtherBooks } from "../routing/other-books.ts";

/** The whole book is told again so often: what was lost on the way is made good by it. */
const WHOLE_MS = 1_000;

/**
 * Tells other routers what this one has in flight, and keeps what they tell. A booking is told at once; what changes while that is under
 * way goes with the next one, so a burst costs as many messages as round trips fit into it.
 */
export class BookShare {
  readonly others = new OtherBooks();
  readonly #exchange: BookingExchange;
  readonly #loads: LoadBook;
  readonly #clock: Clock;
  readonly #changed = new Set<WorkerId>();
  #telling = false;
  #whole = true;
  #cancel = (): void => {};
  #closed = false;

  constructor(exchange: BookingExchange, loads: LoadBook, clock: Clock) {
    this.#exchange = exchange;
    this.#loads = loads;
    this.#clock = clock;
    loads.onChange = (worker) => this.#note(worker);
    exchange.listen((news) => this.others.hear(news, clock.now()));
    this.#beat();
  }

  close(): void {
    this.#closed = true;
    this.#cancel();
    this.#loads.onChange = undefined;
    this.#exchange.close();
  }

  #beat(): void {
    this.#whole = true;
    this.#send();
    this.#cancel = this.#clock.after(WHOLE_MS, () => this.#beat());
  }

  #note(worker: WorkerId): void {
    this.#changed.add(worker);
    this.#send();
  }

  #send(): void {
    if (this.#telling || this.#closed || (this.#changed.size === 0 && !this.#whole)) return;
    this.#telling = true;
    // After what runs now, so that what one request changes is one message.
    queueMicrotask(() => {
      if (this.#closed) return;
      const whole = this.#whole;
      const nowMs = this.#clock.now();
      const told = whole ? [...this.#loads.busy()] : [...this.#changed];
      this.#whole = false;
      this.#changed.clear();
      const books = told.map((worker) => bookingsOf(worker, this.#loads.of(worker), nowMs));
      void this.#exchange.tell(books, whole).then(() => {
        this.#telling = false;
        this.#send();
      });
    });
  }
}
