import { EventEmitter } from "node:events";
import type { OutgoingHttpHeaders } from "node:http";
import type { ClientResponse } from "../../http/client-response.ts";
import type { AnswerPart, AnswerState } from "./protocol.ts";

/** So much of an answer may be on its way to the thread that has the connection before it is waited for. */
const AHEAD_BYTES = 256 * 1024;

/** How the thread with the connection is told. */
export interface AnswerWay {
  part(part: AnswerPart): void;
  cut(): void;
}

/**
 * An answer that the main thread gives to a client of another thread: refusals, lists of models, comments while a model is loaded, and
 * whole relays where a request could not stay there.
 */
export class AwayResponse extends EventEmitter implements ClientResponse {
  headersSent = false;
  writableEnded = false;
  /** The other thread tells of a client that left only, so what closes here is never finished. */
  readonly writableFinished = false;
  destroyed = false;
  statusCode = 200;
  readonly #way: AnswerWay;
  #set: OutgoingHttpHeaders | undefined;
  #head: AnswerPart["head"];
  #ahead = 0;

  constructor(way: AnswerWay) {
    super();
    this.#way = way;
  }

  /** Headers set so far that the other thread has not heard of; it hears of them with this. */
  takeSet(): OutgoingHttpHeaders | undefined {
    const set = this.#set;
    this.#set = undefined;
    return set;
  }

  setHeader(name: string, value: string): this {
    this.#set ??= {};
    this.#set[name] = value;
    return this;
  }

  writeHead(status: number, headers: OutgoingHttpHeaders = {}): this {
    const set = this.takeSet();
    this.headersSent = true;
    this.statusCode = status;
    this.#head = { status, headers, ...(set === undefined ? {} : { set }) };
    return this;
  }

  flushHeaders(): void {
    this.#send({ flush: true });
  }

  write(chunk: string | Uint8Array): boolean {
    this.#ahead += chunk.length;
    if (this.#ahead < AHEAD_BYTES) {
      this.#send({ chunk });
      return true;
    }
    this.#ahead = 0;
    this.#send({ chunk, asksDrain: true });
    return false;
  }

  end(chunk?: string | Uint8Array): this {
    if (this.writableEnded) return this;
    this.writableEnded = true;
    this.#send(chunk === undefined ? { end: true } : { chunk, end: true });
    return this;
  }

  destroy(): this {
    if (!this.destroyed) this.#way.cut();
    this.destroyed = true;
    return this;
  }

  /** What the other thread has sent of a leg's answer. */
  became({ headersSent, writableEnded, statusCode }: AnswerState): void {
    this.headersSent ||= headersSent;
    this.writableEnded ||= writableEnded;
    this.statusCode = statusCode;
  }

  /** The client is gone. */
  left(): void {
    if (this.destroyed) return;
    this.destroyed = true;
    this.emit("close");
  }

  #send(part: AnswerPart): void {
    if (this.destroyed) return;
    const head = this.#head;
    this.#head = undefined;
    this.#way.part(head === undefined ? part : { ...part, head });
  }
}
