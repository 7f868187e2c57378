import { Worker } from "node:worker_threads";
import type { CgnError } from "../../core/errors.ts";
import type { Log } from "../../core/log.ts";
import { acceptFrom, type Exchange } from "../accept.ts";
import { Outbox } from "./outbox.ts";
import type { DoorSettings, FromDoor, ToDoor } from "./protocol.ts";
import { RemoteClient } from "./remote-client.ts";
import { receivedError } from "./sent-error.ts";

/** Files are `.ts` here and `.js` in the published package, and a thread's file is named in full. */
const ENTRY = new URL(`./door-thread${import.meta.url.slice(import.meta.url.lastIndexOf("."))}`, import.meta.url);

export interface DoorOptions {
  readonly settings: DoorSettings;
  readonly log: Log;
  /** The way of a request, in this thread. */
  serve(exchange: Exchange): Promise<void>;
  /** It listens. */
  onListening(address: { readonly host: string; readonly port: number }): void;
  /** It cannot listen; it ends. */
  onFailed(error: CgnError): void;
  /** It has closed its server in order. */
  onClosed(): void;
  /** The thread is gone, and its clients' connections with it; their bookings are given back. */
  onGone(why: string): void;
  refusedTls(why: string, from: string | undefined): void;
}

/** One thread that has clients' connections, from the main thread's side. */
export class Door {
  readonly out: Outbox<ToDoor>;
  readonly thread: Worker;
  connections = 0;
  /** 99th percentile of the last two seconds, in seconds. */
  delayS = 0;
  readonly #options: DoorOptions;
  readonly #clients = new Map<number, RemoteClient>();
  #isGone = false;

  constructor(options: DoorOptions) {
    this.#options = options;
    const { settings } = options;
    this.thread = new Worker(ENTRY, { name: `cgn router ${settings.index}`, workerData: settings });
    this.out = new Outbox({ postMessage: (message, transfer) => this.thread.postMessage(message, transfer) });
    this.thread.on("message", (messages: readonly FromDoor[]) => {
      for (const message of messages) this.#take(message);
    });
    this.thread.on("error", (e) => this.#gone(e instanceof Error ? (e.stack ?? e.message) : String(e)));
    this.thread.on("exit", (code) => this.#gone(`it ended with code ${code}`));
  }

  /** End it at once; nobody is told. */
  async end(): Promise<void> {
    this.#isGone = true;
    this.#clear();
    await this.thread.terminate();
  }

  #take(message: FromDoor): void {
    const options = this.#options;
    switch (message.t) {
      case "ask":
        this.#serve(message);
        return;
      case "listening":
        options.onListening({ host: message.host, port: message.port });
        return;
      case "failed":
        options.onFailed(receivedError(message.error));
        return;
      case "closed":
        options.onClosed();
        return;
      case "figures":
        this.connections = message.connections;
        this.delayS = message.delayS;
        return;
      case "log": {
        const log = message.once === undefined ? options.log : options.log.once(message.once);
        log[message.level](message.message, message.fields);
        return;
      }
      case "refusedTls":
        options.refusedTls(message.why, message.from);
        return;
      default:
        this.#clients.get(message.id)?.take(message);
    }
  }

  #serve({ id, head, read }: FromDoor & { readonly t: "ask" }): void {
    const client = new RemoteClient(id, head, read, this.out);
    this.#clients.set(id, client);
    const exchange = acceptFrom(client, client.req, client.res, head.startedMs);
    this.#options
      .serve(exchange)
      .catch((e: unknown) => {
        const stack = e instanceof Error ? e.stack : undefined;
        this.#options.log.error("A request met a fault of the router", { id: exchange.id, said: String(e), stack });
        client.res.destroy();
      })
      .finally(() => this.#clients.delete(id));
  }

  #gone(why: string): void {
    if (this.#isGone) return;
    this.#isGone = true;
    this.#clear();
    this.#options.onGone(why);
  }

  #clear(): void {
    this.out.close();
    this.connections = 0;
    this.delayS = 0;
    for (const client of this.#clients.values()) client.gone();
    this.#clients.clear();
  }
}
