import type { MemoryDirectory } from "../cluster/memory-directory.ts";
import type { Clock } from "../core/clock.ts";
import type { Log } from "../core/log.ts";
import type { WorkerInfo, WorkerState } from "../core/worker.ts";
import type { Engine } from "../engines/engine.ts";
import { fetchText, type TextReply } from "../http/fetch-text.ts";
import { type AskEngine, adoptAgain, unknownWorker } from "./adopt.ts";
import type { EngineSpec } from "./engine-spec.ts";

const PERIOD_MS = 1_000;
/** SGLang's `/health` takes more than a second: it generates a token. */
const PROBE_TIMEOUT_MS = 5_000;
/** A ready engine that does not answer so many probes in a row is down; one that refuses connections is at once. */
const SILENT_PROBES = 3;
/** Looks between two times that an engine is asked again for what it did not say in time: each may take seconds. */
const FIRST_PAUSE = 2;
const MOST_PAUSE = 64;

export interface EngineWatchOptions {
  readonly specs: readonly EngineSpec[];
  readonly engines: readonly Engine[];
  /** Where the workers are written. */
  readonly directory: MemoryDirectory;
  readonly clock: Clock;
  readonly log: Log;
}

export interface EngineWatch {
  /** Resolves after the first look at each engine. */
  readonly first: Promise<void>;
  close(): void;
}

/**
 * Watch engines that somebody else runs: find out what they are once they answer, then keep their state.
 *
 * An engine that comes back after it was down is another process: its epoch grows. A restart between two probes is not
 * seen here (its KV events show it).
 */
export function watchEngines(options: EngineWatchOptions): EngineWatch {
  const watches = options.specs.map((spec) => new Watched(spec, options));
  return {
    first: Promise.all(watches.map((watched) => watched.look())).then(() => {}),
    close() {
      for (const watched of watches) watched.close();
    },
  };
}

const ask: AskEngine = (url, path) => fetchText(url + path, { timeoutMs: PROBE_TIMEOUT_MS });

class Watched {
  readonly #spec: EngineSpec;
  readonly #options: EngineWatchOptions;
  #worker: WorkerInfo;
  #known = false;
  /** Looks until it is asked again what it did not say of itself; undefined: it said all. */
  #again: number | undefined;
  /** And between the next two times. */
  #pause = FIRST_PAUSE;
  /** What it said of itself last; undefined: nothing yet. */
  #adopted: WorkerInfo | undefined;
  #silent = 0;
  /** It was ready once, and down since. */
  #wasDown = false;
  #closed = false;
  #cancel: (() => void) | undefined;

  constructor(spec: EngineSpec, options: EngineWatchOptions) {
    this.#spec = spec;
    this.#options = options;
    // Seconds since 1970, so that it also rises over restarts of this process: a kvcached elsewhere ignores the past.
    this.#worker = { ...unknownWorker(spec), epoch: seconds(options.clock) };
    options.directory.set(this.#worker);
  }

  async look(): Promise<void> {
    try {
      if (this.#known && this.#again !== 0) await this.#probe();
      else await this.#identify();
      if (this.#again !== undefined && this.#again > 0) this.#again--;
    } catch (e) {
      this.#become("down", `it could not be asked: ${e instanceof Error ? e.message : String(e)}`);
    }
    if (!this.#closed) this.#cancel = this.#options.clock.after(PERIOD_MS, () => void this.look());
  }

  close(): void {
    this.#closed = true;
    this.#cancel?.();
  }

  async #identify(): Promise<void> {
    const { engines, log } = this.#options;
    const found = await adoptAgain(this.#spec, engines, ask, this.#adopted);
    if (this.#closed) return;
    if (found === undefined && this.#known) {
      this.#again = this.#pause;
      await this.#probe();
      return;
    }
    if (found === undefined) {
      const reply = await ask(this.#spec.url, "/v1/models");
      const why =
        reply.status === 0
          ? (reply.tls ?? "it does not answer")
          : `GET /v1/models answers ${reply.status}, and names no model`;
      this.#become(reply.status === 0 ? "down" : "starting", why);
      return;
    }
    this.#known = true;
    this.#pause = found.whole ? FIRST_PAUSE : Math.min(this.#pause * 2, MOST_PAUSE);
    this.#again = found.whole ? undefined : this.#pause;
    const { worker } = found;
    const { epoch, state } = this.#worker;
    // One that is asked again while it is ready stays so.
    const now = state === "ready" ? { state, reason: "" } : { state: "starting" as const, reason: "not probed yet" };
    this.#worker = { ...worker, epoch, ...now };
    const { id, kind, models, kv } = worker;
    if (JSON.stringify(worker) !== JSON.stringify(this.#adopted))
      log.info("Engine adopted", { worker: id, kind, models, kv: kv.type, ...(found.whole ? {} : { whole: false }) });
    this.#adopted = worker;
    await this.#probe();
  }

  async #probe(): Promise<void> {
    const engine = this.#options.engines.find(({ kind }) => kind === this.#worker.kind);
    if (engine === undefined) return;
    const { ready } = engine.probe;
    const reply = await fetchText(this.#spec.url + ready.path, {
      timeoutMs: PROBE_TIMEOUT_MS,
      ...(ready.method === undefined ? {} : { method: ready.method }),
      ...(ready.body === undefined ? {} : { body: ready.body }),
    });
    if (this.#closed) return;
    this.#judge(ready.verdict(reply), reply);
  }

  #judge(verdict: "ready" | "loading" | "failed", reply: TextReply): void {
    if (reply.status !== 0) this.#silent = 0;
    else if (!reply.refused && ++this.#silent < SILENT_PROBES && this.#worker.state === "ready") return;
    const said = `its health probe answers ${reply.status}`;
    if (verdict === "ready") this.#become("ready", "");
    else if (reply.refused) this.#become("down", "connection refused");
    else if (reply.status === 0) this.#become("down", reply.tls ?? "no answer to its health probe");
    else this.#become(verdict === "loading" ? "starting" : "down", said);
  }

  #become(state: WorkerState, reason: string): void {
    if (this.#closed) return;
    const before = this.#worker;
    // A process that was gone may come back as another model, or with other events.
    if (state === "down") this.#known = false;
    const back = state === "ready" && this.#wasDown;
    if (state === "down" && before.state === "ready") this.#wasDown = true;
    if (back) this.#wasDown = false;
    if (state !== before.state) {
      const say = state === "down" ? this.#options.log.warn : this.#options.log.info;
      say(`Engine is ${state}`, { worker: before.id, ...(reason === "" ? {} : { reason }) });
    }
    this.#worker = {
      ...before,
      state,
      reason,
      epoch: back ? Math.max(before.epoch + 1, seconds(this.#options.clock)) : before.epoch,
    };
    this.#options.directory.set(this.#worker);
  }
}

const seconds = (clock: Clock): number => Math.floor(clock.wall() / 1_000);
