import type { BookingExchange, WorkerBookings } from "../core/booking-exchange.ts";
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
  #turn: Promise<void> | undefined;
  #inTurn = false;
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

  /**
   * Wait until no other router chooses, and know what they have chosen. Undefined: there is none, or nobody to ask. Whoever waits must
   * choose and book as soon as it is told, before anything else: then the turn is over. Requests that come meanwhile share it.
   */
  turn(): Promise<void> | undefined {
    if (this.others.routers === 0) return undefined;
    this.#turn ??= this.#take();
    return this.#turn;
  }

  async #take(): Promise<void> {
    const news = await this.#exchange.takeTurn();
    this.#turn = undefined;
    if (news === undefined || this.#closed) return;
    this.others.hear(news, this.#clock.now());
    this.#inTurn = true;
    // Those who wait for this promise run before it.
    setImmediate(() => {
      this.#inTurn = false;
      const books = this.#booksOf([...this.#changed]);
      this.#changed.clear();
      void this.#exchange.tell(books, false, true);
      this.#send();
    });
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

  #booksOf(workers: readonly WorkerId[]): WorkerBookings[] {
    const nowMs = this.#clock.now();
    return workers.map((worker) => bookingsOf(worker, this.#loads.of(worker), nowMs));
  }

  #send(): void {
    // What is booked in a turn is told with its end.
    if (this.#telling || this.#inTurn || this.#closed || (this.#changed.size === 0 && !this.#whole)) return;
    this.#telling = true;
    // After what runs now, so that what one request changes is one message.
    queueMicrotask(() => {
      if (this.#closed || this.#inTurn) {
        this.#telling = false;
        return;
      }
      const whole = this.#whole;
      const books = this.#booksOf(whole ? [...this.#loads.busy()] : [...this.#changed]);
      this.#whole = false;
      this.#changed.clear();
      void this.#exchange.tell(books, whole).then(() => {
        this.#telling = false;
        this.#send();
      });
    });
  }
}
