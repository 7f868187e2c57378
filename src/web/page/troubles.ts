import { type Dashboard, sourcesOf } from "./data.ts";
import { duration } from "./format.ts";

/** Something that is worse than it could be. */
export interface Trouble {
  /** `bad`: requests fail, or are routed wrongly; `warn`: less than it could be. */
  readonly level: "bad" | "warn";
  /** Whom it is about. */
  readonly who: string;
  readonly what: string;
  /** What to do, where it is known apart from `what`. */
  readonly remedy?: string;
  /** Names it for lists. */
  readonly key: string;
}

/** All that an operator should know of, what hurts most first. */
export function troublesOf({ status, engines }: Dashboard): readonly Trouble[] {
  const found: Trouble[] = [];
  const add = (level: Trouble["level"], who: string, what: string, remedy?: string): void => {
    found.push({ level, who, what, ...(remedy === undefined ? {} : { remedy }), key: `${who}|${what}` });
  };
  if (status.draining) add("bad", status.node, "This router drains: it takes no new connections.");
  for (const { model, ready, workers, problem } of status.models) {
    const canWait = status.workers.some(
      (w) => w.models.includes(model) && (w.onDemand === true || w.state === "starting"),
    );
    if (workers > 0 && ready === 0 && !canWait)
      add("bad", model, "No engine of this model is ready.", "See the engines' reasons below.");
    if (problem !== undefined) add("warn", model, problem);
  }
  for (const worker of status.workers) {
    const { error, crashes } = engines[worker.id] ?? {};
    if (worker.state === "down")
      add("bad", worker.id, `Down: ${error ?? worker.reason}`, `cgn logs ${worker.id} --run bad`);
    else if (crashes !== undefined && crashes !== "")
      add("warn", worker.id, crashes, `cgn logs ${worker.id} --run bad`);
    if (worker.breaker === "open") add("bad", worker.id, worker.whyNot ?? "Its circuit breaker is open.");
    if (worker.unpaired !== undefined) add("warn", `${worker.id} (${worker.role})`, worker.unpaired);
    if (worker.pairCaution !== undefined) add("warn", `${worker.id} (${worker.role})`, worker.pairCaution);
  }
  for (const source of sourcesOf(status)) {
    for (const { code, message, forMs } of source.alarms ?? []) {
      // Its message has the remedy.
      add("warn", source.worker, `${code} for ${duration(forMs)}: ${message}`);
    }
    if (source.state === "failed" || source.state === "silent")
      add("warn", source.worker, `Its KV events are ${source.state}: ${source.detail}`);
  }
  accessTroubles(status, add);
  return found.sort((a, b) => Number(a.level === "warn") - Number(b.level === "warn"));
}

function accessTroubles(
  { access, tracing }: Dashboard["status"],
  add: (level: Trouble["level"], who: string, what: string) => void,
): void {
  const limits = access?.rateLimit;
  if (limits?.state === "lost") add("warn", "rate limits", `${limits.store} is lost (${limits.onLoss ?? ""})`);
  if (access?.keysFile?.problem !== undefined) add("warn", "keys file", access.keysFile.problem);
  if (access?.oidc?.problem !== undefined) add("warn", access.oidc.issuer, access.oidc.problem);
  if (tracing?.problem !== undefined) add("warn", `traces to ${tracing.endpoint}`, tracing.problem);
}
