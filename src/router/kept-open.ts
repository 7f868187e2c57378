import type { Clock } from "../core/clock.ts";
import type { ClientResponse } from "../http/client-response.ts";
import type { Exchange } from "./accept.ts";
import { openStream, sendComment } from "./opened-stream.ts";

/** A stream that is held back so long gets its head, and a comment each time it passes again. */
const SILENCE_MS = 15_000;

/** Lets a client that waits for a stream see that something lives, while models are asked whose answers it may not get. */
export class KeptOpen {
  #cancel: () => void = () => {};

  constructor(exchange: Exchange, clock: Clock, streams: boolean) {
    if (!streams) return;
    const res: ClientResponse = exchange.res;
    const beat = (): void => {
      // (What is let go in between is no silence; a comment does no harm there, but may cut no event.)
      if (exchange.cascade?.held?.state !== "released") {
        const real = { ...exchange, res };
        openStream(real);
        sendComment(real, "cgn asks a model");
      }
      this.#cancel = clock.after(SILENCE_MS, beat);
    };
    this.#cancel = clock.after(SILENCE_MS, beat);
  }

  stop(): void {
    this.#cancel();
  }
}
