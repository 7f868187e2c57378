import type { Ticket } from "../access/ticket.ts";
import type { CascadeChain } from "../config/settings.ts";
import { toCgnError } from "../core/errors.ts";
import type { Exchange } from "./accept.ts";
import { whyBlind } from "./cascade-ask.ts";
import { CascadeStep, STEP_HEADER, type StepRule } from "./cascade-step.ts";
import type { RouterCore } from "./core.ts";
import type { CascadeRecord, Writable } from "./decisions.ts";
import { KeptOpen } from "./kept-open.ts";
import type { ReadRequest } from "./read.ts";

/** Answers a request for one model: admission, choice, relay. */
export type ServeModel = (request: ReadRequest) => Promise<void>;

/** Endpoints that generate an answer; all others go to the chain's first model. */
const GENERATES: ReadonlySet<string> = new Set(["chat", "completion", "messages", "responses"]);

/** The chain behind a name; undefined: the name is a model's alone. */
export function findChain({ cascades }: Pick<RouterCore, "cascades">, name: string): CascadeChain | undefined {
  return Object.hasOwn(cascades, name) ? cascades[name] : undefined;
}

/** A chain's models in the order in which they are asked. */
export function modelsOf({ name, models }: CascadeChain, { fleet }: Pick<RouterCore, "fleet">): readonly string[] {
  const served = fleet.group(name) !== undefined || fleet.departed(name) !== undefined;
  return served ? [name, ...models] : models;
}

/**
 * Ask a chain's models one after the other until one is sure of its answer; the last one's answer is the client's, whatever it is. A step
 * that cannot be asked, fails or refuses leaves the request to the next.
 * @throws CgnError what the last step met, CALLER_LEFT
 */
export async function serveCascade(
  core: RouterCore,
  exchange: Exchange,
  asked: ReadRequest,
  chain: CascadeChain,
  serveModel: ServeModel,
): Promise<void> {
  const models = modelsOf(chain, core);
  const { away, model: named, root } = asked;
  // Its body is with another thread: what is judged passes through this one.
  const request = away === undefined ? asked : { ...(await away.bring()), model: named, root };
  const { ticket, res } = exchange;
  const shared = new SharedTicket(ticket);
  const open = new KeptOpen(exchange, core.clock, request.stream);
  exchange.ticket = shared;
  try {
    const earlier: CascadeRecord[] = [];
    for (const [i, model] of models.entries()) {
      const rule = GENERATES.has(request.kind) ? ruleOf(chain, models.length, i) : undefined;
      const why = rule === undefined ? undefined : whyAllBlind(core, exchange, request, model);
      const skips = why !== undefined && chain.unjudged === "next";
      const judged = why === undefined ? rule : undefined;
      const record = newRecord(chain, models, i, judged, [...earlier]);
      if (skips) {
        earlier.push({ ...record, result: "skipped", why });
        core.metrics.cascaded(chain.name, model, "skipped");
        continue;
      }
      if (why !== undefined) record.why = why;
      const step = new CascadeStep(record, judged, request, res, {
        cut: () => exchange.relay?.clientLeft(),
        left: () => exchange.left,
        now: () => core.clock.now(),
      });
      if (await serveStep(exchange, step, open, () => serveModel(stepRequest(request, model)), core)) return;
      earlier.push(step.past());
    }
  } finally {
    open.stop();
    exchange.cascade = undefined;
    exchange.res = res;
    exchange.ticket = ticket;
    shared.pay();
  }
}

/** @returns true: the client has its answer, or is gone */
async function serveStep(
  exchange: Exchange,
  step: CascadeStep,
  open: KeptOpen,
  serve: () => Promise<void>,
  core: RouterCore,
): Promise<boolean> {
  const { held, record } = step;
  const real = exchange.res;
  exchange.cascade = step;
  if (held === undefined) {
    open.stop();
    record.result = "last";
    if (!real.headersSent) real.setHeader(STEP_HEADER, String(record.step));
    core.metrics.cascaded(record.chain, record.model, "last");
    await serve();
    return true;
  }
  exchange.res = held;
  try {
    await serve();
  } catch (e) {
    const error = toCgnError(e);
    if (held.state === "released" || exchange.left || error.code === "CALLER_LEFT" || error.code === "BUG") throw e;
    step.fail(error.message);
  } finally {
    exchange.res = real;
    exchange.opened = real.headersSent;
  }
  if (held.state === "holding") step.fail(`its engine answered ${held.status ?? "nothing"}`);
  if (!exchange.left || held.state === "released")
    core.metrics.cascaded(record.chain, record.model, record.result ?? "failed", record.mean);
  return held.state === "released" || exchange.left;
}

/** The last model is not judged. */
function ruleOf({ thresholds, tokens, unjudged }: CascadeChain, models: number, i: number): StepRule | undefined {
  const fromEnd = models - 1 - i;
  if (fromEnd === 0) return undefined;
  // One threshold is for all; of a list the last is for the last that is judged.
  const threshold = thresholds.length === 1 ? thresholds[0]! : (thresholds.at(-fromEnd) ?? thresholds[0]!);
  return { threshold, tokens, unjudged };
}

function newRecord(
  { name }: CascadeChain,
  models: readonly string[],
  i: number,
  rule: StepRule | undefined,
  earlier: readonly CascadeRecord[],
): Writable<CascadeRecord> {
  return {
    chain: name,
    model: models[i]!,
    step: i + 1,
    steps: models.length,
    ...(rule === undefined ? {} : { threshold: rule.threshold }),
    ...(earlier.length === 0 ? {} : { earlier }),
  };
}

/** Why no ready worker of a model would give log probabilities; undefined: some would, or nobody is there to say. */
function whyAllBlind(core: RouterCore, { path }: Exchange, request: ReadRequest, model: string): string | undefined {
  const ready = core.fleet.group(model)?.ready ?? [];
  const whys = ready.map((worker) => {
    const converted = core.abilities.way(worker, path)?.convert !== undefined;
    return whyBlind(worker, converted ? { ...request, kind: "chat" } : request);
  });
  return whys.length > 0 && whys.every((why) => why !== undefined) ? whys[0] : undefined;
}

/** The request as one for this model. Its bytes stay; who forwards them writes the name. */
function stepRequest(request: ReadRequest, model: string): ReadRequest {
  const { json, model: named } = request;
  if (model === named) return request;
  return {
    ...request,
    model,
    ...(json === undefined ? {} : { json: { ...json, model } }),
    ...(named === undefined ? {} : { bodyModel: named }),
  };
}

/** One ticket for all steps: what they used is paid together. */
class SharedTicket implements Ticket {
  readonly headers: Readonly<Record<string, string>>;
  readonly countsTokens: boolean;
  readonly #real: Ticket;
  #used = 0;
  #isKnown = true;

  constructor(real: Ticket) {
    this.#real = real;
    this.headers = real.headers;
    this.countsTokens = real.countsTokens;
  }

  reserve(promptTokens: number): void {
    this.#real.reserve(this.#used + promptTokens);
  }

  /** One step is over. */
  end(tokens: number | undefined): void {
    if (tokens === undefined) this.#isKnown = false;
    else this.#used += tokens;
  }

  pay(): void {
    this.#real.end(this.#isKnown ? this.#used : undefined);
  }
}
