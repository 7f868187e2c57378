import type { WorkerId } from "../core/ids.ts";
import type { WorkerInfo } from "../core/worker.ts";
import { findEngine } from "../engines/registry.ts";
import { type Choice, chooseAndBook } from "./choose.ts";
import { ContinuedStream, mayContinue } from "./continuation.ts";
import type { RouterCore } from "./core.ts";
import { type Routed, runLeg } from "./leg.ts";
import { noteAttempt } from "./record.ts";
import type { LegRun } from "./settle.ts";
import { errorEvent } from "./sinks.ts";

/** A stream may begin at one engine and be gone on with at so many others. */
const MOST_LEGS = 3;

/** Kept beside a stream that may be continued, where its model wants that and the request allows it. */
export function openContinuation(core: RouterCore, { request }: Routed): ContinuedStream | undefined {
  if (!core.answersOf(request.model ?? "").continueStreams || !mayContinue(request)) return undefined;
  return new ContinuedStream();
}

/**
 * Go on with a stream whose engine died after its first token: what was generated goes to another engine as the beginning of its
 * answer. Where that cannot be, the client is told in the stream.
 * @param run the first engine's leg, which was cut
 * @returns the last leg, with its times counted from the first
 */
export async function continueStream(
  core: RouterCore,
  routed: Routed,
  run: LegRun,
  stream: ContinuedStream,
): Promise<LegRun> {
  const { exchange, request } = routed;
  const last = await runLegs(core, routed, run, stream);
  const whole = { ...last, sentMs: run.sentMs, firstMs: run.firstMs, continued: true } as const;
  const result = last.end.type === "complete" ? "ok" : last.end.type === "left" || exchange.left ? "left" : "failed";
  core.metrics.continued(request.model ?? "", result);
  if (last.end.type !== "cut" && last.end.type !== "retry") return whole;
  if (exchange.left) return { ...whole, end: { type: "left" } };
  const { failure } = run.end.type === "cut" ? run.end : last.end;
  exchange.res.end(errorEvent(failure, exchange.shape));
  return { ...whole, end: { type: "broken", failure } };
}

/** The legs after the first, up to one that is not cut or to the last that may be. */
async function runLegs(core: RouterCore, routed: Routed, run: LegRun, stream: ContinuedStream): Promise<LegRun> {
  const { exchange, request, record } = routed;
  const tried = new Set<WorkerId>();
  let last = run;
  while (last.end.type === "cut" || (last.end.type === "retry" && last.end.failure.kind !== "unusable")) {
    tried.add(last.choice.worker.id);
    record.attempts.at(-1)!.failed = `${last.end.failure.kind}: ${last.end.failure.message}`;
    if (exchange.left || stream.legs >= MOST_LEGS) break;
    try {
      const choice = choose(core, routed, tried);
      if (choice === undefined) break;
      noteAttempt(core, record, choice);
      record.attempts.at(-1)!.continues = stream.tokens;
      const edits = stream.nextEdits(request, findEngine(choice.worker.kind).continuesChat ?? {});
      last = await runLeg(core, routed, choice, { fresh: true, edits, stream });
    } catch (e) {
      // It is too much for a limit, or cannot be written for that worker: the stream ends as it would have.
      const attempt = record.attempts.at(-1)!;
      const why = `not continued: ${e instanceof Error ? e.message : String(e)}`;
      attempt.failed = attempt.failed === undefined ? why : `${attempt.failed}; ${why}`;
      break;
    }
  }
  return last;
}

function choose(core: RouterCore, { exchange, request, question }: Routed, tried: Set<WorkerId>): Choice | undefined {
  const group = core.fleet.group(request.model ?? "");
  if (group === undefined) return undefined;
  const ready = group.ready.filter((worker) => continues(core, worker, request.kind, exchange.path));
  return chooseAndBook(core.chooser, { ...group, ready }, question, tried);
}

/** Does a worker go on with an answer that it is given the beginning of? With a text completion any does. */
function continues(core: RouterCore, worker: WorkerInfo, kind: string, path: string): boolean {
  const way = core.abilities.way(worker, path);
  if (way === undefined || way.convert !== undefined) return false;
  return kind === "completion" || findEngine(worker.kind).continuesChat !== undefined;
}
