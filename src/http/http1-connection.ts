import { connect, type Socket } from "node:net";
import { type AnswerEvents, type AnswerHeaders, AnswerParser, NotHttp } from "./answer-parser.ts";
import { readFailure, type UpstreamFailure } from "./upstream-failure.ts";

/** Who sent the request that is under way on a connection. */
export interface ConnectionUser {
  onHead(status: number, headers: AnswerHeaders): void;
  /** False asks for a pause, until `resume()`. */
  onBody(bytes: Buffer): boolean;
  onAnswerEnd(): void;
  onFailure(failure: UpstreamFailure): void;
}

export interface Http1Address {
  readonly host: string;
  readonly port: number;
}

/**
 * What all connections read into: one after the other, since nothing waits between a read and the reading of what it brought. Node's
 * own streams would make a buffer, a queue and an event for each read.
 */
const READS = Buffer.alloc(64 * 1024);

/** So long an idle connection is kept where the engine says nothing: uvicorn closes after 5 s. */
const IDLE_MS = 4_000;
/** It is given up so much earlier than the engine says. */
const IDLE_MARGIN_MS = 2_000;
const MAX_IDLE_MS = 600_000;

/** A smaller body is copied behind its head: one piece costs the system and Node less than two. */
const MAX_JOINED = 16 * 1024;

/** One connection to an engine in clear text, for one request at a time. */
export class Http1Connection implements AnswerEvents {
  readonly #socket: Socket;
  readonly #parser = new AnswerParser(this);
  readonly #onIdle: (connection: Http1Connection) => void;
  readonly #onClosed: (connection: Http1Connection) => void;
  #user: ConnectionUser | undefined;
  #phase: UpstreamFailure["phase"] = "connect";
  #message: readonly [head: string, body: Uint8Array | undefined, bodiless: boolean] | undefined;
  #connectTimer: NodeJS.Timeout | undefined;
  #paused = false;
  #idleMs = IDLE_MS;
  /** When it should no longer be used. */
  idleUntilMs = 0;

  /**
   * @param onIdle it may carry another request
   * @param onClosed it is gone, whatever it carried
   */
  constructor(
    address: Http1Address,
    connectMs: number,
    onIdle: (connection: Http1Connection) => void,
    onClosed: (connection: Http1Connection) => void,
  ) {
    this.#onIdle = onIdle;
    this.#onClosed = onClosed;
    const onread = { buffer: READS, callback: (size: number) => this.#read(size) };
    const socket = connect({ ...address, noDelay: true, keepAlive: true, keepAliveInitialDelay: 60_000, onread });
    this.#socket = socket;
    this.#connectTimer = setTimeout(() => this.#late(connectMs), connectMs);
    socket.on("connect", () => this.#connected());
    socket.on("end", () => this.#ended());
    socket.on("error", (e) => this.#fail(readFailure(e, this.#phase)));
    socket.on("close", () => {
      this.#fail({ kind: "reset", phase: this.#phase, message: "the engine closed the connection" });
      this.#onClosed(this);
    });
  }

  get usable(): boolean {
    return this.#user === undefined && !this.#socket.destroyed && this.#socket.writable;
  }

  /**
   * Send a request, at once or as soon as there is a connection.
   * @param head with the blank line at its end
   * @param bodiless its answer has no body (HEAD)
   */
  send(user: ConnectionUser, head: string, body: Uint8Array | undefined, bodiless: boolean): void {
    this.#user = user;
    if (this.#connectTimer === undefined) this.#write(head, body, bodiless);
    else this.#message = [head, body, bodiless];
  }

  /** What is under way is of no interest any more. */
  cut(): void {
    this.#user = undefined;
    this.#parser.stop();
    this.#socket.destroy();
  }

  /** Cut it; what is under way fails. */
  lose(): void {
    this.#fail({ kind: "reset", phase: this.#phase, message: "the engine is gone" });
  }

  resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    this.#socket.resume();
  }

  onHead(status: number, headers: AnswerHeaders): void {
    this.#phase = "body";
    const hint = headers["keep-alive"];
    const seconds = typeof hint === "string" ? /timeout=(\d+)/.exec(hint)?.[1] : undefined;
    this.#idleMs = seconds === undefined ? IDLE_MS : Math.min(Number(seconds) * 1000 - IDLE_MARGIN_MS, MAX_IDLE_MS);
    this.#user?.onHead(status, headers);
  }

  onBody(bytes: Buffer): void {
    if (this.#user !== undefined && !this.#user.onBody(bytes)) this.#paused = true;
  }

  onAnswerEnd(reusable: boolean): void {
    const user = this.#user;
    this.#user = undefined;
    // A request that is not sent whole yet would go on into the next one.
    if (reusable && this.#socket.writableLength === 0 && this.#idleMs > 0) {
      this.resume();
      this.idleUntilMs = performance.now() + this.#idleMs;
      this.#onIdle(this);
    } else this.cut();
    user?.onAnswerEnd();
  }

  #write(head: string, body: Uint8Array | undefined, bodiless: boolean): void {
    this.#phase = "head";
    this.#parser.expect(bodiless);
    const socket = this.#socket;
    if (body === undefined) socket.write(head, "latin1");
    else if (body.length <= MAX_JOINED) {
      const bytes = Buffer.allocUnsafe(head.length + body.length);
      bytes.write(head, 0, "latin1");
      bytes.set(body, head.length);
      socket.write(bytes);
    } else {
      socket.cork();
      socket.write(head, "latin1");
      socket.write(body);
      socket.uncork();
    }
  }

  #connected(): void {
    clearTimeout(this.#connectTimer);
    this.#connectTimer = undefined;
    const message = this.#message;
    this.#message = undefined;
    if (message !== undefined) this.#write(...message);
  }

  /** @returns false: read no more for now */
  #read(size: number): boolean {
    try {
      this.#parser.push(READS.subarray(0, size));
    } catch (e) {
      const failure = e instanceof NotHttp ? undefined : readFailure(e, this.#phase);
      this.#fail(failure ?? { kind: "protocol", phase: this.#phase, message: (e as Error).message });
      return false;
    }
    return !this.#paused;
  }

  #ended(): void {
    try {
      if (this.#parser.endOfInput()) return;
    } catch (e) {
      this.#fail(readFailure(e, this.#phase));
    }
    this.#fail({ kind: "reset", phase: this.#phase, message: "the engine closed the connection" });
  }

  #late(connectMs: number): void {
    const message = `no connection within ${connectMs / 1000} s`;
    this.#fail({ kind: "connect-timeout", phase: "connect", message });
  }

  #fail(failure: UpstreamFailure): void {
    clearTimeout(this.#connectTimer);
    const user = this.#user;
    this.cut();
    user?.onFailure(failure);
  }
}
