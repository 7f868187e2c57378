/** A priority is worth so much waiting: who waits longer goes before later ones of the next higher priority, and nobody starves. */
export const PRIORITY_STEP_MS = 10_000;

/** One that waits. */
export interface QueueEntry<T> {
  /** Who shares a place in turn with others. */
  readonly subject: string;
  /** Higher goes first. An integer. */
  readonly priority: number;
  readonly sinceMs: number;
  /** When it must be answered, on the clock of `sinceMs`; Infinity: never. */
  readonly deadlineMs: number;
  readonly what: T;
}

/** Those of one priority who came within the same step of time. */
interface Class<T> {
  readonly level: number;
  readonly priority: number;
  /** [subject] by deadline, then in the order of arrival. */
  readonly lines: Map<string, QueueEntry<T>[]>;
}

interface Share {
  running: number;
  waiting: number;
  lastTurn: number;
}

/**
 * Who goes next. First by priority, whereby time spent waiting raises it; among equals the subject that has the fewest running, of those
 * the one whose turn was longest ago; within a subject by deadline, then by arrival.
 *
 * So a tenant with a thousand waiting takes one place in turn with one that has a single request, and a deadline puts a request before
 * its own tenant's others only.
 */
export class FairQueue<T> {
  /** Sorted: the next one first. */
  readonly #classes: Class<T>[] = [];
  readonly #shares = new Map<string, Share>();
  readonly #waiting = new Set<QueueEntry<T>>();
  #turn = 0;

  get length(): number {
    return this.#waiting.size;
  }

  /** How many subjects have something waiting or running. */
  get subjects(): number {
    return this.#shares.size;
  }

  push(entry: QueueEntry<T>): void {
    this.#waiting.add(entry);
    this.#share(entry.subject).waiting++;
    const { lines } = this.#classOf(entry);
    const line = lines.get(entry.subject);
    if (line === undefined) lines.set(entry.subject, [entry]);
    else line.splice(placeIn(line, entry.deadlineMs), 0, entry);
  }

  /** It waits no longer. False: it did not. */
  remove(entry: QueueEntry<T>): boolean {
    if (!this.#waiting.delete(entry)) return false;
    const found = this.#classOf(entry);
    const line = found.lines.get(entry.subject)!;
    line.splice(line.indexOf(entry), 1);
    if (line.length === 0) found.lines.delete(entry.subject);
    if (found.lines.size === 0) this.#classes.splice(this.#classes.indexOf(found), 1);
    const share = this.#share(entry.subject);
    share.waiting--;
    this.#drop(entry.subject, share);
    return true;
  }

  /** Take who is next; it runs from now on, until `ended()`. */
  take(): QueueEntry<T> | undefined {
    const [first] = this.#classes;
    if (first === undefined) return undefined;
    let best: string | undefined;
    let bestShare: Share | undefined;
    for (const subject of first.lines.keys()) {
      const share = this.#share(subject);
      if (bestShare === undefined || goesBefore(share, bestShare)) {
        best = subject;
        bestShare = share;
      }
    }
    const entry = first.lines.get(best!)![0]!;
    this.started(entry.subject);
    this.remove(entry);
    return entry;
  }

  /**
   * Who gives way in a full queue to one more of `subject`: the last of the subject that has the most waiting, where that has more than
   * `subject` would have. Undefined: nobody. It is not removed.
   */
  displaced(subject: string): QueueEntry<T> | undefined {
    let most: string | undefined;
    let mostWaiting = (this.#shares.get(subject)?.waiting ?? 0) + 1;
    for (const [name, { waiting }] of this.#shares) {
      if (waiting <= mostWaiting) continue;
      most = name;
      mostWaiting = waiting;
    }
    if (most === undefined) return undefined;
    return this.#classes
      .findLast(({ lines }) => lines.has(most))
      ?.lines.get(most)
      ?.at(-1);
  }

  /** How many would be taken before an entry of this priority that comes now, were it the last of its equals. */
  ahead(priority: number, nowMs: number): number {
    const level = levelOf(priority, nowMs);
    let count = 0;
    for (const each of this.#classes) {
      if (compareClasses(each, { level, priority }) > 0) break;
      for (const line of each.lines.values()) count += line.length;
    }
    return count;
  }

  /** One of this subject runs that did not wait. */
  started(subject: string): void {
    const share = this.#share(subject);
    share.running++;
    share.lastTurn = ++this.#turn;
  }

  ended(subject: string): void {
    const share = this.#share(subject);
    share.running--;
    this.#drop(subject, share);
  }

  #share(subject: string): Share {
    let share = this.#shares.get(subject);
    if (share === undefined) this.#shares.set(subject, (share = { running: 0, waiting: 0, lastTurn: 0 }));
    return share;
  }

  /** Subjects come and go; nothing is kept of those that have nothing here. */
  #drop(subject: string, { running, waiting }: Share): void {
    if (running <= 0 && waiting <= 0) this.#shares.delete(subject);
  }

  #classOf({ priority, sinceMs }: QueueEntry<T>): Class<T> {
    const wanted = { level: levelOf(priority, sinceMs), priority };
    let at = 0;
    while (at < this.#classes.length) {
      const order = compareClasses(this.#classes[at]!, wanted);
      if (order === 0) return this.#classes[at]!;
      if (order > 0) break;
      at++;
    }
    const made: Class<T> = { ...wanted, lines: new Map() };
    this.#classes.splice(at, 0, made);
    return made;
  }
}

function levelOf(priority: number, sinceMs: number): number {
  return Math.floor(sinceMs / PRIORITY_STEP_MS) - priority;
}

type ClassKey = Pick<Class<unknown>, "level" | "priority">;

/** Negative: `a` goes first. */
function compareClasses(a: ClassKey, b: ClassKey): number {
  return a.level - b.level || b.priority - a.priority;
}

function goesBefore(a: Share, b: Share): boolean {
  return a.running < b.running || (a.running === b.running && a.lastTurn < b.lastTurn);
}

/** Behind all whose deadline is not later. */
function placeIn(line: readonly QueueEntry<unknown>[], deadlineMs: number): number {
  let low = 0;
  let high = line.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (line[middle]!.deadlineMs <= deadlineMs) low = middle + 1;
    else high = middle;
  }
  return low;
}
