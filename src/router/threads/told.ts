import type { WorkerDirectory, WorkerInfo } from "../../core/worker.ts";
import type { HttpTls } from "../../http/server.ts";
import type { DoorTls } from "./protocol.ts";

/** Who is there, as the main thread tells. */
export class ToldDirectory implements WorkerDirectory {
  #workers: readonly WorkerInfo[];
  readonly #listeners = new Set<(workers: readonly WorkerInfo[]) => void>();

  constructor(workers: readonly WorkerInfo[]) {
    this.#workers = workers;
  }

  list(): readonly WorkerInfo[] {
    return this.#workers;
  }

  subscribe(listener: (workers: readonly WorkerInfo[]) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  set(workers: readonly WorkerInfo[]): void {
    this.#workers = workers;
    for (const listener of this.#listeners) listener(workers);
  }
}

/** Certificates, as the main thread tells. */
export class ToldTls implements HttpTls {
  #tls: DoorTls | undefined;
  readonly #listeners = new Set<() => void>();
  readonly #refused: (why: string, from: string | undefined) => void;

  constructor(tls: DoorTls | undefined, refused: (why: string, from: string | undefined) => void) {
    this.#tls = tls;
    this.#refused = refused;
  }

  serverOptions(): DoorTls | undefined {
    return this.#tls;
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  refused(why: string, from: string | undefined): void {
    this.#refused(why, from);
  }

  set(tls: DoorTls): void {
    this.#tls = tls;
    for (const listener of this.#listeners) listener();
  }
}
