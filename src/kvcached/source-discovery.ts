import type { EngineKind } from "../core/engine-kind.ts";
import type { WorkerId } from "../core/ids.ts";
import type { KvSource, WorkerInfo } from "../core/worker.ts";
import { type Engine, toldSources } from "../engines/engine.ts";
import { ENGINES, findEngine } from "../engines/registry.ts";

/** Each question waits so long for its answer. */
const TIMEOUT_MS = 5_000;
/** What an engine tells of itself is small; SGLang's is 40 KiB. */
const MAX_ANSWER_BYTES = 4 * 2 ** 20;

interface Found {
  readonly key: string;
  readonly kind: EngineKind;
  readonly kv: KvSource;
}

/**
 * Finds event sources that nobody told of: of engines that somebody else started, or that stand behind an address of an engine of
 * unknown kind. vLLM tells at `/kv_event_sources`, SGLang at `/server_info`.
 */
export class SourceDiscovery {
  readonly #ask: typeof fetch;
  readonly #apiKey: (id: WorkerId) => string | undefined;
  readonly #found = new Map<WorkerId, Found>();

  /**
   * @param ask how engines are asked
   * @param apiKey the key that an engine asks for, where it is known
   */
  constructor(ask: typeof fetch, apiKey: (id: WorkerId) => string | undefined = () => undefined) {
    this.#ask = ask;
    this.#apiKey = apiKey;
  }

  /** The worker as it is to be followed, by what is found so far. */
  resolved(worker: WorkerInfo): WorkerInfo {
    const found = this.#found.get(worker.id);
    return found === undefined || found.key !== keyOf(worker) ? worker : { ...worker, kind: found.kind, kv: found.kv };
  }

  /** Ask a worker whose cache is not known well whether it publishes events after all. `then` is called when it does. */
  async look(worker: WorkerInfo, then: () => void): Promise<void> {
    const { id, kv, state } = worker;
    const key = keyOf(worker);
    if (kv.type === "events" || kv.slots !== undefined || state !== "ready" || this.#found.get(id)?.key === key) return;
    for (const engine of candidates(worker)) {
      const body = await answerOf(this.#ask, `${worker.url}${engine.probe.kvSources!.path}`, this.#apiKey(id));
      const found = body === undefined ? undefined : sourceOf(engine, body, worker);
      if (found === undefined) continue;
      this.#found.set(id, { key, kind: engine.kind, kv: found });
      then();
      return;
    }
  }

  /** Another run found this for the worker. */
  remember(worker: WorkerInfo, { kind, kv }: Pick<WorkerInfo, "kind" | "kv">): void {
    this.#found.set(worker.id, { key: keyOf(worker), kind, kv });
  }

  forget(id: WorkerId): void {
    this.#found.delete(id);
  }
}

/** Another process, or other words about it, is asked anew. */
function keyOf({ epoch, kind, url, kv }: WorkerInfo): string {
  return JSON.stringify([epoch, kind, url, kv]);
}

/** Its own engine where that one tells of sources; all that do, where its kind is not known. */
function candidates({ kind }: WorkerInfo): readonly Engine[] {
  const own = findEngine(kind);
  if (own.probe.kvSources !== undefined) return [own];
  const known = own.probe.version !== undefined || own.probe.template !== undefined;
  return known ? [] : ENGINES.filter(({ probe, decodeEvents }) => probe.kvSources !== undefined && decodeEvents);
}

function sourceOf({ probe }: Engine, body: string, { url, rank }: WorkerInfo): KvSource | undefined {
  const wanted = rank?.index ?? 0;
  return toldSources(probe, body, new URL(url).hostname).find(
    (source) => source.type === "events" && source.dpRank === wanted,
  );
}

async function answerOf(ask: typeof fetch, url: string, key: string | undefined): Promise<string | undefined> {
  try {
    const reply = await ask(url, {
      headers: key === undefined ? {} : { authorization: `Bearer ${key}` },
      redirect: "error",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    if (!reply.ok || Number(reply.headers.get("content-length") ?? 0) > MAX_ANSWER_BYTES) {
      await reply.body?.cancel();
      return undefined;
    }
    return await reply.text();
  } catch {
    // It is not there, or is no such engine.
    return undefined;
  }
}
