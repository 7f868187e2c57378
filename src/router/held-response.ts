import type { OutgoingHttpHeaders } from "node:http";
import type { ClientResponse } from "../http/client-response.ts";

/**
 * A client's response that keeps what is written to it until it is known whether the client gets it. `release()` writes all of it to the
 * real one, and from then on everything at once; `drop()` forgets it and takes the rest for nothing.
 */
export class HeldResponse implements ClientResponse {
  readonly #real: ClientResponse;
  #state: "holding" | "released" | "dropped" = "holding";
  #head: { readonly status: number; readonly headers: OutgoingHttpHeaders } | undefined;
  #chunks: (string | Uint8Array)[] = [];
  #bytes = 0;
  #ended = false;
  #destroyed = false;

  constructor(real: ClientResponse) {
    this.#real = real;
  }

  get state(): "holding" | "released" | "dropped" {
    return this.#state;
  }

  /** Status of what was written; undefined: nothing was. */
  get status(): number | undefined {
    return this.#head?.status;
  }

  /** The client's own answer has begun with comments. */
  get isOpen(): boolean {
    return this.#real.headersSent;
  }

  /** Bytes that are held. */
  get bytes(): number {
    return this.#bytes;
  }

  get headersSent(): boolean {
    return this.#head !== undefined || (this.#state === "released" && this.#real.headersSent);
  }

  get writableEnded(): boolean {
    return this.#ended;
  }

  get writableFinished(): boolean {
    return this.#state === "released" && this.#real.writableFinished;
  }

  get statusCode(): number {
    return this.#head?.status ?? this.#real.statusCode;
  }

  get destroyed(): boolean {
    return this.#destroyed || this.#real.destroyed;
  }

  /** The client gets it. @returns false: no more until `drain` */
  release(): boolean {
    if (this.#state !== "holding") return true;
    this.#state = "released";
    if (this.#head !== undefined && !this.#real.headersSent)
      this.#real.writeHead(this.#head.status, this.#head.headers);
    const chunks = this.#chunks;
    this.#forget();
    let more = true;
    for (let i = 0; i < chunks.length; i++) {
      if (this.#ended && i === chunks.length - 1) break;
      more = this.#real.write(chunks[i]!);
    }
    // The last piece with the end: a body of a told length goes in one write.
    if (this.#ended) this.#real.end(chunks.at(-1));
    if (this.#destroyed) this.#real.destroy();
    return more;
  }

  /** Nobody gets it. */
  drop(): void {
    if (this.#state !== "holding") return;
    this.#state = "dropped";
    this.#forget();
  }

  setHeader(name: string, value: string): this {
    this.#real.setHeader(name, value);
    return this;
  }

  writeHead(status: number, headers: OutgoingHttpHeaders = {}): this {
    this.#head = { status, headers };
    if (this.#state === "released" && !this.#real.headersSent) this.#real.writeHead(status, headers);
    return this;
  }

  flushHeaders(): void {
    if (this.#state === "released") this.#real.flushHeaders();
  }

  write(bytes: string | Uint8Array): boolean {
    if (this.#state === "released") return this.#real.write(bytes);
    if (this.#state === "holding") this.#keep(bytes);
    return true;
  }

  end(bytes?: string | Uint8Array): this {
    if (this.#ended) return this;
    this.#ended = true;
    if (this.#state === "released") this.#real.end(bytes);
    else if (this.#state === "holding" && bytes !== undefined) this.#keep(bytes);
    return this;
  }

  destroy(): this {
    this.#destroyed = true;
    if (this.#state === "released") this.#real.destroy();
    return this;
  }

  on(event: "close" | "error", heard: () => void): this {
    this.#real.on(event, heard);
    return this;
  }

  once(event: "drain", heard: () => void): this {
    this.#real.once(event, heard);
    return this;
  }

  #keep(bytes: string | Uint8Array): void {
    this.#chunks.push(bytes);
    this.#bytes += bytes.length;
  }

  #forget(): void {
    this.#chunks = [];
    this.#bytes = 0;
  }
}
