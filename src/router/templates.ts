import type { Clock } from "../core/clock.ts";
import type { WorkerId } from "../core/ids.ts";
import type { Log } from "../core/log.ts";
import type { WorkerInfo } from "../core/worker.ts";
import type { LoadedRenderer } from "./model-renderer.ts";
import type { PromptRenderer, RendererSource } from "./render.ts";

/** A model's first requests wait so long for its template; then they go by load while it loads on. */
const FIRST_WAIT_MS = 1_000;
/** What could not be loaded is tried again after so long. */
const RETRY_MS = 30_000;

export interface TemplatesOptions {
  readonly load: (worker: WorkerInfo) => Promise<LoadedRenderer>;
  readonly clock: Clock;
  readonly log: Log;
}

/** The renderers of all models, loaded at their first request and after a restart of their engines. */
export interface Templates extends RendererSource {
  /** What is wrong with each model's rendering, by model. */
  problems(): Readonly<Record<string, string>>;
}

interface Entry {
  /** Of which process, and of which files: another one may have another template. */
  readonly worker: WorkerId;
  readonly key: string;
  readonly sinceMs: number;
  loaded: LoadedRenderer | undefined;
  readonly loading: Promise<LoadedRenderer>;
}

export function createTemplates(options: TemplatesOptions): Templates {
  const { clock, log } = options;
  const entries = new Map<string, Entry>();
  const start = (model: string, worker: WorkerInfo, key: string, before: LoadedRenderer | undefined): Entry => {
    const loading = options.load(worker).catch((e: unknown): LoadedRenderer => {
      return { renderer: before?.renderer, problem: e instanceof Error ? e.message : String(e) };
    });
    const entry: Entry = { worker: worker.id, key, sinceMs: clock.now(), loaded: before, loading };
    void loading.then((loaded) => {
      entry.loaded = loaded;
      if (loaded.problem === undefined) log.debug("Chat template loaded", { model, worker: worker.id });
      else
        log
          .once(`template/${model}/${loaded.problem}`)
          .warn("Prompts cannot be matched", { model, why: loaded.problem });
    });
    entries.set(model, entry);
    return entry;
  };
  return {
    get(group) {
      const worker = group.ready[0];
      let entry = entries.get(group.model);
      if (worker !== undefined && isStale(entry, worker, clock.now())) {
        entry = start(group.model, worker, keyOf(worker), entry?.loaded);
      }
      if (entry === undefined) return undefined;
      if (entry.loaded !== undefined) return entry.loaded.renderer;
      return withDeadline(entry.loading, clock);
    },
    problems() {
      const found = [...entries].flatMap(([model, { loaded }]) =>
        loaded?.problem === undefined ? [] : [[model, loaded.problem] as const],
      );
      return Object.fromEntries(found);
    },
  };
}

function keyOf({ id, epoch, tokenizer }: WorkerInfo): string {
  return `${id}@${epoch} ${tokenizer.dir ?? tokenizer.gguf ?? tokenizer.bytes ?? ""}`;
}

/** Nothing was loaded, it failed a while ago, or the process it was asked from is another now. */
function isStale(entry: Entry | undefined, worker: WorkerInfo, nowMs: number): boolean {
  if (entry === undefined) return true;
  if (entry.loaded === undefined) return false;
  if (entry.loaded.problem !== undefined) return nowMs - entry.sinceMs > RETRY_MS;
  return entry.worker === worker.id && entry.key !== keyOf(worker);
}

function withDeadline(loading: Promise<LoadedRenderer>, clock: Clock): Promise<PromptRenderer | undefined> {
  return new Promise((resolve) => {
    const cancel = clock.after(FIRST_WAIT_MS, () => resolve(undefined));
    void loading.then(({ renderer }) => {
      cancel();
      resolve(renderer);
    });
  });
}
