/** Where messages go: a thread's port, on either side of it. */
export interface Port {
  postMessage(message: unknown, transfer: ArrayBuffer[]): void;
}

/**
 * Sends what one turn of the event loop has to say as one message: to wake the other side costs more than most messages do.
 */
export class Outbox<T> {
  readonly #port: Port;
  #waiting: T[] = [];
  #transfer: ArrayBuffer[] = [];
  #armed = false;
  #closed = false;

  constructor(port: Port) {
    this.#port = port;
  }

  /** @param moved memory that goes along and is gone here */
  post(message: T, moved?: ArrayBuffer): void {
    if (this.#closed) return;
    this.#waiting.push(message);
    if (moved !== undefined) this.#transfer.push(moved);
    if (this.#armed) return;
    this.#armed = true;
    setImmediate(() => this.flush());
  }

  flush(): void {
    this.#armed = false;
    if (this.#waiting.length === 0 || this.#closed) return;
    const messages = this.#waiting;
    const transfer = this.#transfer;
    this.#waiting = [];
    this.#transfer = [];
    this.#port.postMessage(messages, transfer);
  }

  /** Nobody is there any more: what is said from now on goes nowhere. */
  close(): void {
    this.#closed = true;
    this.#waiting = [];
    this.#transfer = [];
  }
}
