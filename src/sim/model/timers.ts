interface Timer<T> {
  readonly at: number;
  readonly serial: number;
  readonly what: T;
}

/** Things that are due at given times: a binary heap, among equals in the order in which they were set. */
export class Timers<T> {
  readonly #heap: Timer<T>[] = [];
  #serial = 0;

  /** When the first is due. */
  get nextAt(): number | undefined {
    return this.#heap[0]?.at;
  }

  set(at: number, what: T): void {
    const heap = this.#heap;
    const timer = { at, serial: this.#serial++, what };
    let i = heap.push(timer) - 1;
    while (i > 0) {
      const parent = (i - 1) >> 1;
      if (before(heap[parent]!, timer)) break;
      heap[i] = heap[parent]!;
      i = parent;
    }
    heap[i] = timer;
  }

  /** Take the first. @throws RangeError when there is none */
  take(): T {
    const heap = this.#heap;
    const first = heap[0];
    const last = heap.pop();
    if (first === undefined || last === undefined) throw new RangeError("no timer is set");
    if (heap.length > 0) this.#sink(last);
    return first.what;
  }

  #sink(timer: Timer<T>): void {
    const heap = this.#heap;
    let i = 0;
    while (true) {
      let child = 2 * i + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && before(heap[child + 1]!, heap[child]!)) child++;
      if (before(timer, heap[child]!)) break;
      heap[i] = heap[child]!;
      i = child;
    }
    heap[i] = timer;
  }
}

function before<T>(a: Timer<T>, b: Timer<T>): boolean {
  return a.at < b.at || (a.at === b.at && a.serial < b.serial);
}
