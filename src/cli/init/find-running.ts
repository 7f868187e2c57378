import type { EngineKind } from "../../core/engine-kind.ts";
import { ENGINES } from "../../engines/registry.ts";
import { fetchText } from "../../http/fetch-text.ts";
import { adoptEngine } from "../../router/adopt.ts";
import { parseEngineSpec } from "../../router/engine-spec.ts";

/** An engine that answers on this host. */
export interface RunningEngine {
  readonly url: string;
  readonly kind: EngineKind;
  readonly models: readonly string[];
}

/** Where engines listen when nobody says otherwise: vLLM and llama_cpp.server, SGLang, llama-server and mlx_lm, Ollama, LM Studio. */
export const USUAL_PORTS: readonly number[] = [8000, 30_000, 8080, 11_434, 1234];

/** One that takes longer to say its models is not asked further. */
const TIMEOUT_MS = 2_000;

/** Engines on the usual ports of this host. */
export async function findRunning(ports: readonly number[] = USUAL_PORTS): Promise<RunningEngine[]> {
  const found = await Promise.all(ports.map((port) => askEngine(`http://127.0.0.1:${port}`)));
  return found.flatMap((each) => each ?? []);
}

/** What answers at a base URL; undefined when nothing does, it names no model, or it is a router of cgn's own. */
export async function askEngine(url: string): Promise<RunningEngine | undefined> {
  const ask = (base: string, path: string) => fetchText(`${base}${path}`, { timeoutMs: TIMEOUT_MS });
  const { status, body } = await ask(url, "/v1/models");
  if (status !== 200 || /"owned_by"\s*:\s*"cgn"/.test(body)) return undefined;
  const worker = await adoptEngine(parseEngineSpec(url), ENGINES, ask);
  return worker === undefined ? undefined : { url, kind: worker.kind, models: worker.models };
}
