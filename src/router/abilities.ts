import { API_PATHS, samePaths } from "../core/api-paths.ts";
import type { Clock } from "../core/clock.ts";
import { CgnError } from "../core/errors.ts";
import type { WorkerId } from "../core/ids.ts";
import type { WorkerInfo } from "../core/worker.ts";
import { engineErrorText } from "./api-errors.ts";
import type { Conversion } from "./convert/conversion.ts";
import { conversionOf } from "./convert/conversions.ts";
import type { ModelGroup } from "./fleet.ts";
import { saysMissing } from "./missing-path.ts";

/** How a worker is asked for what a client asks by a path. */
export interface Way {
  /** The path on the engine. */
  readonly path: string;
  /** The engine lacks the API and is asked for a chat completion in its place. */
  readonly convert?: Conversion;
}

const CHAT = "/v1/chat/completions";
const COMPLETIONS = "/v1/completions";
const NAMED: ReadonlySet<string> = new Set(API_PATHS);

/** What was learnt is asked anew after so long: an engine that nobody supervises may have been started anew unseen. */
const BELIEVED_MS = 300_000;

/** Of these a 501 is about what the request asks for. */
const GENERATING: ReadonlySet<string> = new Set([CHAT, COMPLETIONS, "/v1/messages", "/v1/responses"]);

interface Learnt {
  readonly epoch: number;
  readonly untilMs: number;
  /** By path, in the engine's words. */
  readonly lacks: Map<string, string>;
}

/** Which worker serves which API: by its traits, and by what it answered since it was started. */
export class Abilities {
  readonly #clock: Clock;
  readonly #learnt = new Map<WorkerId, Learnt>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** How a worker can be asked; undefined: it cannot. */
  way(worker: WorkerInfo, path: string): Way | undefined {
    const own = this.#ownPath(worker, path);
    if (own !== undefined) return { path: own };
    const convert = conversionOf(path);
    if (convert === undefined) return undefined;
    const chat = this.#ownPath(worker, CHAT);
    return chat === undefined ? undefined : { path: chat, convert };
  }

  /** The workers that can be asked. The same list where all can. */
  able(workers: readonly WorkerInfo[], path: string): readonly WorkerInfo[] {
    // Every kind of engine has these: the usual request is not asked about.
    if (this.#learnt.size === 0 && (path === CHAT || path === COMPLETIONS)) return workers;
    if (!NAMED.has(path) || this.#hasAll(workers, path)) return workers;
    return workers.filter((worker) => this.way(worker, path) !== undefined);
  }

  /** The conversion that at least one of these workers needs. */
  conversionFor(workers: readonly WorkerInfo[], path: string): Conversion | undefined {
    const convert = conversionOf(path);
    return convert !== undefined && workers.some((w) => this.#lacks(w, path)) ? convert : undefined;
  }

  /** The one that all of a group's ready workers need: then the prompt is that of the chat completion. */
  commonConversion({ ready }: ModelGroup, path: string): Conversion | undefined {
    const convert = conversionOf(path);
    if (convert === undefined || ready.length === 0) return undefined;
    return ready.every((worker) => this.#lacks(worker, path)) ? convert : undefined;
  }

  /** An engine answered that it has no such path. @returns whether that is news */
  learn(worker: WorkerInfo, path: string, answer: { readonly body: Buffer } | undefined): boolean {
    let learnt = this.#current(worker);
    if (learnt === undefined) {
      learnt = { epoch: worker.epoch, untilMs: this.#clock.now() + BELIEVED_MS, lacks: new Map() };
      this.#learnt.set(worker.id, learnt);
    }
    if (learnt.lacks.has(path)) return false;
    learnt.lacks.set(path, saidIn(answer?.body));
    return true;
  }

  forget(id: WorkerId): void {
    this.#learnt.delete(id);
  }

  /** What to tell a client whose request no worker of its model can take. */
  refusal(group: ModelGroup, path: string): CgnError {
    const said = group.workers.flatMap((w) => this.#said(w, path) ?? []);
    const kinds = [...new Set(group.workers.map((w) => w.kind))].join(", ");
    const words = said.length === 0 ? "" : ` (it says: ${said[0]})`;
    const is = `no engine of it (${kinds}) has that endpoint${words}`;
    const should = "Use an endpoint that it has, or serve the model by an engine with this one";
    return new CgnError("NOT_SUPPORTED", `Cannot serve ${path} for "${group.model}": ${is}. ${should}`, {}) as CgnError;
  }

  #hasAll(workers: readonly WorkerInfo[], path: string): boolean {
    return workers.every((worker) => !this.#lacks(worker, path));
  }

  #lacks(worker: WorkerInfo, path: string): boolean {
    if (worker.traits.lacks?.includes(path) === true) return true;
    return this.#learnt.size > 0 && this.#current(worker)?.lacks.has(path) === true;
  }

  #current({ id, epoch }: WorkerInfo): Learnt | undefined {
    const learnt = this.#learnt.get(id);
    if (learnt === undefined || (learnt.epoch === epoch && learnt.untilMs > this.#clock.now())) return learnt;
    this.#learnt.delete(id);
    return undefined;
  }

  #ownPath(worker: WorkerInfo, path: string): string | undefined {
    if (!this.#lacks(worker, path)) return path;
    return samePaths(path).find((other) => !this.#lacks(worker, other));
  }

  #said(worker: WorkerInfo, path: string): string | undefined {
    return this.#current(worker)?.lacks.get(path) || undefined;
  }
}

const MAX_SAID = 200;

function saidIn(body: Buffer | undefined): string {
  if (body === undefined) return "";
  try {
    const said: unknown = JSON.parse(body.toString("utf8"));
    return (engineErrorText(said) ?? "").slice(0, MAX_SAID);
  } catch {
    return "";
  }
}

/**
 * Does an answer say that the engine has no such endpoint? FastAPI (vLLM, SGLang) answers a path without a route with exactly this; so
 * do llama-server and MLX with theirs; llama-server answers 501 of type `not_supported_error` where it was started without. Other 404
 * and 501 are about the request (a model that is not there, a parameter that is not built), and the engine's word to the client.
 *
 * @param path on the engine
 */
export function isMissing(status: number, body: Buffer, path: string): boolean {
  if (!(status === 404 || status === 405 || status === 501) || body.length > 1_024 || !NAMED.has(path)) return false;
  if (status === 501 && GENERATING.has(path)) return false;
  if (status === 501) return /"type": ?"not_supported_error"/.test(body.toString("utf8"));
  return saysMissing(status, body);
}
