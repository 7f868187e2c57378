import type { Socket } from "node:net";

/** What of a connection tells whether its client takes what is sent. */
interface Taking extends Pick<Socket, "writableLength" | "bytesWritten" | "destroy"> {
  /** What the system has not taken of the write that is under way. Node's own timeouts look at it. */
  readonly _handle?: { readonly writeQueueSize?: number } | null;
}

/**
 * Cut connections whose clients take nothing of what waits for them: each holds an answer, and the engine that makes it, for
 * ever. Seen by a look at all of them now and then, so that a request costs nothing.
 *
 * @param limitMs 0: nobody is cut
 * @returns ends it
 */
export function cutStalledClients(sockets: ReadonlySet<Taking>, limitMs: number): () => void {
  if (limitMs <= 0) return () => {};
  const looks = new StalledLooks(sockets);
  // Three looks in a row without a byte taken: between two thirds of the limit and all of it.
  const timer = setInterval(() => looks.look(LOOKS), limitMs / LOOKS);
  timer.unref();
  return () => clearInterval(timer);
}

const LOOKS = 3;

/** Looks at connections, and remembers how much each had taken. */
export class StalledLooks {
  readonly #sockets: ReadonlySet<Taking>;
  readonly #seen = new WeakMap<Taking, { taken: number; queued: number; looks: number }>();

  constructor(sockets: ReadonlySet<Taking>) {
    this.#sockets = sockets;
  }

  /** Cut those that took nothing since `most` looks although something waits for them. */
  look(most: number): void {
    for (const socket of this.#sockets) {
      if (socket.writableLength === 0) {
        this.#seen.delete(socket);
        continue;
      }
      // `bytesWritten` counts what waits too.
      const taken = socket.bytesWritten - socket.writableLength;
      const queued = socket._handle?.writeQueueSize ?? 0;
      const seen = this.#seen.get(socket);
      if (seen === undefined || seen.taken !== taken || seen.queued !== queued)
        this.#seen.set(socket, { taken, queued, looks: 1 });
      else if (++seen.looks > most) socket.destroy();
    }
  }
}
