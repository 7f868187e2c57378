import type { WorkerInfo } from "../core/worker.ts";
import type { Engine } from "../engines/engine.ts";
import { fetchText } from "../http/fetch-text.ts";

/** SGLang's `/health` takes more than a second: it generates a token. */
const LOOK_TIMEOUT_MS = 5_000;

/**
 * Does the engine behind a worker say that it can answer? Of a probe that computes only whether anything answers is asked, where
 * that can be asked.
 */
export async function askHealth(engines: readonly Engine[], worker: WorkerInfo): Promise<boolean> {
  const engine = engines.find(({ kind }) => kind === worker.kind);
  if (engine === undefined) return true;
  const { ready } = engine.probe;
  if (ready.alivePath !== undefined) {
    const reply = await fetchText(worker.url + ready.alivePath, { timeoutMs: LOOK_TIMEOUT_MS });
    return reply.status !== 0;
  }
  const reply = await fetchText(worker.url + ready.path, {
    timeoutMs: LOOK_TIMEOUT_MS,
    ...(ready.method === undefined ? {} : { method: ready.method }),
    ...(ready.body === undefined ? {} : { body: ready.body }),
  });
  // An engine that wants a key of whoever looks is there.
  return ready.verdict(reply) === "ready" || reply.status === 401 || reply.status === 403;
}
