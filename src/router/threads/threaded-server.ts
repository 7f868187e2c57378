import { createServer } from "node:net";
import type { SecureContextOptions } from "node:tls";
import type { Worker } from "node:worker_threads";
import type { Clock } from "../../core/clock.ts";
import { CgnError, isCgnError } from "../../core/errors.ts";
import type { Log } from "../../core/log.ts";
import type { WorkerDirectory } from "../../core/worker.ts";
import { type HttpServer, type HttpTls, listenError } from "../../http/server.ts";
import type { UpstreamTimeouts } from "../../http/upstream.ts";
import type { Metrics } from "../../telemetry/metrics.ts";
import type { Exchange } from "../accept.ts";
import { Door } from "./door.ts";
import type { DoorSettings, Secrets } from "./protocol.ts";

/** `[router].worker_threads`, where it is 2 or more. */
export interface ThreadOptions {
  readonly count: number;
  /** For finding models' files. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Told of each thread when it is started. */
  onStart?(thread: Worker): void;
}

export interface ThreadedServerOptions {
  readonly threads: ThreadOptions;
  readonly listen: { readonly host: string; readonly port: number };
  readonly tls: HttpTls | undefined;
  readonly engineTls: (() => SecureContextOptions) | undefined;
  readonly timeouts: UpstreamTimeouts | undefined;
  readonly maxBodyBytes: number;
  readonly identifiesFirst: boolean;
  readonly directory: WorkerDirectory;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** The way of a request. */
  serve(exchange: Exchange): Promise<void>;
}

/** A thread that ended is started anew after so long, twice as long each time, up to the second; a minute of life forgives. */
const FIRST_PAUSE_MS = 100;
const MOST_PAUSE_MS = 10_000;
const FORGIVEN_MS = 60_000;

/**
 * Listen on one port with several threads, among which the system shares out connections.
 * @throws CgnError PORT_IN_USE, BAD_INVOCATION (also where the system cannot share a port)
 */
export async function startThreadedServer(options: ThreadedServerOptions): Promise<HttpServer> {
  await requireFree(options.listen);
  const server = new Doors(options);
  try {
    await server.open();
  } catch (e) {
    await server.close(0);
    throw e;
  }
  return server;
}

/** Threads share a port even with a process that is not ours: one that has it is found by asking for it alone. */
function requireFree({ host, port }: ThreadedServerOptions["listen"]): Promise<void> {
  if (port === 0) return Promise.resolve();
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once("error", (e: NodeJS.ErrnoException) => reject(listenError(e, "router", `${host}:${port}`)));
    probe.listen({ host, port }, () => probe.close(() => resolve()));
  });
}

class Doors implements HttpServer {
  address = { host: "", port: 0 };
  readonly #options: ThreadedServerOptions;
  readonly #doors = new Map<number, Door>();
  readonly #pauses = new Map<number, number>();
  readonly #cancels = new Set<() => void>();
  readonly #leaves: (() => void)[] = [];
  #leaving = false;
  #duck = false;
  #closing: (() => void) | undefined;
  #closed = new Set<Door>();

  constructor(options: ThreadedServerOptions) {
    this.#options = options;
    this.address = options.listen;
    const { directory, tls, metrics } = options;
    this.#leaves.push(directory.subscribe((workers) => this.#tell({ t: "workers", workers })));
    if (tls !== undefined) this.#leaves.push(tls.onChange(() => this.#tell({ t: "tls", ...this.#secrets() })));
    this.#leaves.push(
      metrics.onScrape(() => {
        metrics.gauge("cgn_router_threads").set(this.#doors.size);
        for (const [index, door] of this.#doors)
          metrics.gauge("cgn_router_thread_loop_delay_seconds", String(index)).set(door.delayS);
      }),
    );
  }

  /** The first one finds the port where any would do. */
  async open(): Promise<void> {
    await this.#start(0);
    const others = Array.from({ length: this.#options.threads.count - 1 }, (_, i) => this.#start(i + 1));
    await Promise.all(others);
  }

  connections(): number {
    let sum = 0;
    for (const door of this.#doors.values()) sum += door.connections;
    return sum;
  }

  lameDuck(): void {
    this.#duck = true;
    this.#tell({ t: "duck" });
  }

  async close(graceMs: number): Promise<void> {
    this.#leaving = true;
    for (const cancel of this.#cancels) cancel();
    const open = [...this.#doors.values()].filter((door) => !this.#closed.has(door));
    if (open.length > 0) {
      const closed = new Promise<void>((resolve) => {
        this.#closing = resolve;
      });
      this.#tell({ t: "close", graceMs });
      // One that is too busy to close is ended below.
      const cancel = this.#options.clock.after(graceMs + CLOSE_MS, () => this.#closing?.());
      await closed;
      cancel();
    }
    for (const leave of this.#leaves.splice(0)) leave();
    const doors = [...this.#doors.values()];
    this.#doors.clear();
    await Promise.all(doors.map((door) => door.end()));
  }

  #tell(message: Parameters<Door["out"]["post"]>[0]): void {
    for (const door of this.#doors.values()) door.out.post(message);
  }

  #secrets(): Secrets {
    const { tls, engineTls } = this.#options;
    return { tls: tls?.serverOptions(), engineTls: engineTls?.() };
  }

  #settings(index: number): DoorSettings {
    const { threads, maxBodyBytes, identifiesFirst, timeouts, directory, clock } = this.#options;
    return {
      index,
      listen: this.address,
      ...{ maxBodyBytes, identifiesFirst, timeouts },
      secrets: this.#secrets(),
      workers: directory.list(),
      env: { ...threads.env },
      clockMs: clock.now() - Number(process.hrtime.bigint()) / 1e6,
    };
  }

  #start(index: number): Promise<void> {
    const { log, tls, clock, threads, serve, metrics } = this.#options;
    const startedMs = clock.now();
    return new Promise((resolve, reject) => {
      const door: Door = new Door({
        settings: this.#settings(index),
        log,
        serve,
        refusedTls: (why, from) => tls?.refused?.(why, from),
        onListening: (address) => {
          if (this.address.port === 0) this.address = address;
          if (this.#duck) door.out.post({ t: "duck" });
          resolve();
        },
        onFailed: (error) => {
          this.#doors.delete(index);
          void door.end();
          reject(sharing(error));
        },
        onClosed: () => this.#over(door),
        onGone: (why) => {
          this.#doors.delete(index);
          reject(new Error(`A thread of the router ended before it listened: ${why}`));
          this.#over(door);
          if (this.#leaving) return;
          log.error("A thread of the router ended; its clients' connections are cut, and it is started anew", {
            thread: index,
            why,
          });
          metrics.counter("cgn_router_thread_deaths_total").inc();
          this.#again(index, clock.now() - startedMs);
        },
      });
      this.#doors.set(index, door);
      threads.onStart?.(door.thread);
    });
  }

  #again(index: number, livedMs: number): void {
    const before = livedMs > FORGIVEN_MS ? 0 : (this.#pauses.get(index) ?? 0);
    const pauseMs = before === 0 ? FIRST_PAUSE_MS : Math.min(MOST_PAUSE_MS, before * 2);
    this.#pauses.set(index, pauseMs);
    const cancel = this.#options.clock.after(pauseMs, () => {
      this.#cancels.delete(cancel);
      this.#start(index).catch((e: unknown) => {
        this.#options.log.error("A thread of the router does not listen", { thread: index, why: String(e) });
        // One that ended by itself is started by that.
        if (!this.#leaving && isCgnError(e)) this.#again(index, 0);
      });
    });
    this.#cancels.add(cancel);
  }

  #over(door: Door): void {
    this.#closed.add(door);
    if ([...this.#doors.values()].every((each) => this.#closed.has(each))) this.#closing?.();
  }
}

/** Beyond the grace: what a thread may take to answer that it is closed. */
const CLOSE_MS = 5_000;

/** Not every system shares out connections to a port among those who listen there. */
function sharing(error: CgnError): CgnError {
  if (!error.message.includes("ENOTSUP")) return error;
  const message =
    "Cannot listen with several threads ([router].worker_threads): this system does not share a port among them. Linux and FreeBSD do; set it to 0";
  return new CgnError("BAD_INVOCATION", message, {}) as CgnError;
}
