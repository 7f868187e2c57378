import type { EngineKind } from "../../core/engine-kind.ts";
import { ENGINES } from "../../engines/registry.ts";
import { fetchText, type TextReply } from "../../http/fetch-text.ts";
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
const TIMEOUT_MS = 5_000;
/** Where an address was named, its engine may be busy. */
const NAMED_TIMEOUT_MS = 20_000;

/** Why an address is no engine to adopt: what is, and what would be right. */
export interface NoEngine {
  readonly is: string;
  readonly should: string;
  /** Somebody listens there and said nothing in time: it may be one. */
  readonly isSilent?: boolean;
}

export interface RunningFound {
  readonly running: readonly RunningEngine[];
  /** Addresses where somebody listens who did not answer in time. */
  readonly silent: readonly string[];
}

/** Engines on the usual ports of this host. */
export async function findRunning(
  ports: readonly number[] = USUAL_PORTS,
  timeoutMs = TIMEOUT_MS,
): Promise<RunningFound> {
  const urls = ports.map((port) => `http://127.0.0.1:${port}`);
  const answers = await Promise.all(urls.map((url) => askEngine(url, timeoutMs)));
  return {
    running: answers.flatMap((each) => ("is" in each ? [] : [each])),
    silent: urls.filter((_, n) => "is" in answers[n]! && answers[n].isSilent === true),
  };
}

/** What answers at a base URL, or why that is no engine to adopt. */
export async function askEngine(url: string, timeoutMs = NAMED_TIMEOUT_MS): Promise<RunningEngine | NoEngine> {
  const ask = (base: string, path: string) => fetchText(`${base}${path}`, { timeoutMs });
  const reply = await ask(url, "/v1/models");
  if (reply.status !== 200) return noEngine(reply);
  if (/"owned_by"\s*:\s*"cgn"/.test(reply.body)) {
    const should = 'Name an engine behind it ("cgn status" lists them), or send requests to it as it is';
    return { is: "that is an endpoint of cgn already", should };
  }
  const worker = await adoptEngine(parseEngineSpec(url), ENGINES, ask);
  if (worker === undefined) return { is: "it names no model there", should: "Load a model, or correct the address" };
  return { url, kind: worker.kind, models: worker.models };
}

function noEngine({ status, refused, tls }: TextReply): NoEngine {
  const should = "Start the engine first, or correct the address";
  if (refused) return { is: "nobody listens there", should };
  if (tls !== undefined) return { is: `its certificate is not accepted (${tls})`, should: "Set NODE_EXTRA_CA_CERTS" };
  if (status === 0) {
    const busy = "Try again when it has less to do, or correct the address";
    return { is: "it gave no answer", should: busy, isSilent: true };
  }
  if (status === 401 || status === 403) {
    const keyless = "Let it answer without one, or write [engine] by hand with its url and model";
    return { is: `it asks for an API key (${status})`, should: keyless };
  }
  return { is: `it answers /v1/models with ${status}, so it is no engine that speaks OpenAI's API`, should };
}
