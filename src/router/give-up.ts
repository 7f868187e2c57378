import { CgnError } from "../core/errors.ts";
import type { UpstreamFailure } from "../http/upstream-failure.ts";
import type { Exchange } from "./accept.ts";
import type { Choice } from "./choose.ts";
import type { RouterCore } from "./core.ts";
import type { DecisionRecord } from "./decisions.ts";
import { answerError, answerInStream } from "./opened-stream.ts";
import type { LegEnd } from "./sinks.ts";

/** No other worker may try: send the engine's own answer where it gave one, else say what failed. */
export function giveUp(
  core: RouterCore,
  exchange: Exchange,
  record: DecisionRecord,
  choice: Choice,
  end: LegEnd & { type: "retry" },
): void {
  const { res } = exchange;
  const { held, failure } = end;
  const error = failureError(choice.worker.id, record, failure);
  const totalMs = core.clock.now() - exchange.startedMs;
  const status = held?.status ?? (failure.kind === "timeout" ? 504 : 502);
  record.outcome = { result: "upstream_error", status, error: error.message, totalMs };
  if (exchange.cascade?.counts !== false)
    core.metrics.ended(record.model, "upstream_error", exchange.subject, { totalMs, firstMs: totalMs });
  if (held === undefined) {
    answerError(exchange, error, { "x-request-id": exchange.id, "x-cgn-node": choice.worker.node });
  } else if (exchange.opened) {
    answerInStream(exchange, held.status, held.body);
  } else {
    res.writeHead(held.status, { ...held.headers, "content-length": String(held.body.length) });
    res.end(held.body);
  }
}

function failureError(
  worker: string,
  { model, attempts }: DecisionRecord,
  { kind, message }: UpstreamFailure,
): CgnError {
  const tries = attempts.length === 1 ? "" : `, after ${attempts.length} tries`;
  const is = `Cannot answer the request for "${model}": ${worker} failed (${kind}: ${message})${tries}`;
  if (kind === "timeout")
    return new CgnError("REQUEST_TIMEOUT", `${is}. Ask for fewer tokens, or stream`, {}) as CgnError;
  const should = kind === "unusable" ? "Look at the engine: it would do so again" : "Try again";
  return new CgnError("UPSTREAM_FAILED", `${is}. ${should}`, {}) as CgnError;
}
