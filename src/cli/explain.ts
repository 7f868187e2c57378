import { CgnError, isCgnError } from "../core/errors.ts";
import type { AttemptRecord, ChosenRecord, DecisionRecord } from "../router/decisions.ts";
import { ADMIN_OPTIONS, adminBase, askAdmin } from "./admin-client.ts";
import type { CliContext, Command, Values } from "./command.ts";
import { printCascade } from "./explain-cascade.ts";

/** `cgn explain ID`: why a request went where it went, and what came of it. */
export const explainCommand: Command = {
  name: "explain",
  about: "show why a request was sent where it was: candidates, costs term by term, prediction and outcome",
  examples: ["cgn explain 3f0c…", "cgn explain my-request-1 --admin http://127.0.0.1:9091 --json"],
  positionals: [{ name: "REQUEST_ID", about: "the answer's x-request-id header", required: true }],
  options: {
    ...ADMIN_OPTIONS,
    json: { type: "boolean", about: "print the record as JSON" },
  },
  async run({ options, positionals }, cli) {
    const id = positionals[0] ?? "";
    const record = await fetchDecision(id, options, cli);
    if (options["json"] === true) cli.out(JSON.stringify(record, null, 2));
    else printDecision(record, cli);
    return 0;
  },
};

/** @throws CgnError as `askAdmin()` does */
async function fetchDecision(id: string, options: Values, cli: CliContext): Promise<DecisionRecord> {
  try {
    return JSON.parse(await askAdmin(`/v1/cgn/decisions/${encodeURIComponent(id)}`, options, cli)) as DecisionRecord;
  } catch (error) {
    if (!isCgnError(error, "BAD_INVOCATION") || error.details["status"] !== 404) throw error;
    const message = `Cannot explain "${id}": the router at ${adminBase(options)} does not know it. It keeps the last 2000 requests, by x-request-id`;
    throw new CgnError("BAD_INVOCATION", message, { id });
  }
}

/** The record as people read it. */
export function printDecision(r: DecisionRecord, cli: Pick<CliContext, "out">): void {
  cli.out(`${r.id}  ${r.path}  model ${r.model}${r.stream ? "  stream" : ""}  ${new Date(r.at).toISOString()}`);
  const tokens = r.promptTokens === undefined ? "" : `, about ${r.promptTokens} tokens`;
  cli.out(
    `prompt ${r.promptBytes ?? 0} bytes${tokens}${r.unmatched === undefined ? "" : `; not matched: ${r.unmatched}`}`,
  );
  if (r.queuedMs !== undefined) cli.out(`waited ${(r.queuedMs / 1000).toFixed(1)} s in the queue for a place`);
  if (r.waitedMs !== undefined) cli.out(`waited ${(r.waitedMs / 1000).toFixed(1)} s for its model to be loaded`);
  if (r.cascade !== undefined) printCascade(r.cascade, cli);
  if (r.handedOver !== undefined) cli.out(`handed to another cluster: ${r.handedOver}`);
  for (const [i, attempt] of r.attempts.entries()) printAttempt(r, attempt, i, cli);
  printOutcome(r, cli);
}

function printAttempt(r: DecisionRecord, a: AttemptRecord, i: number, cli: Pick<CliContext, "out">): void {
  cli.out("");
  const turn = r.attempts.length > 1 ? `try ${i + 1}: ` : "";
  if (a.prefill === undefined) {
    cli.out(`${turn}${a.worker} by ${r.policy}: ${a.reason}`);
    printCandidates(a, cli);
  } else {
    cli.out(`${turn}prefill on ${a.prefill.worker} by ${r.policy}: ${a.prefill.reason}`);
    printCandidates(a.prefill, cli);
    cli.out(`${turn}decode on ${a.worker}: ${a.reason} (base: the hand-over)`);
    printCandidates(a, cli);
  }
  if (a.continues !== undefined) cli.out(`goes on with the stream after ${a.continues} tokens that the client had`);
  if (a.whole !== undefined) cli.out(`not split: ${a.whole}`);
  for (const [worker, why] of Object.entries(a.heldBack ?? {})) cli.out(`passed over ${worker}: ${why}`);
  if (a.failed !== undefined) cli.out(`failed: ${a.failed}`);
}

function printCandidates(chosen: ChosenRecord, cli: Pick<CliContext, "out">): void {
  if (chosen.candidates.length === 0) return;
  const head = [
    "worker",
    "TTFT ms",
    "base",
    "wait",
    "fetch",
    "prefill",
    "interf.",
    "others",
    "cached",
    "to do",
    "in flight",
  ];
  const rows = chosen.candidates.map((c) => {
    const { baseMs, waitMs, fetchMs, prefillMs, interferenceMs } = c.terms;
    const ms = [c.ttftMs, baseMs, waitMs, fetchMs, prefillMs, interferenceMs, c.othersMs].map((n) => n.toFixed(1));
    const name = `${c.worker === chosen.worker ? "* " : "  "}${c.worker}`;
    return [name, ...ms, String(c.cachedTokens), String(c.uncachedTokens), String(c.inFlight)];
  });
  for (const line of table([head, ...rows])) cli.out(line);
}

/** Of a split request the prefill worker's cache counts, and both parts of the way to the first token. */
function predictionOf(a: AttemptRecord): { readonly cachedTokens: number; readonly ttftMs: number | undefined } {
  const ttftOf = ({ worker, candidates }: ChosenRecord): number | undefined =>
    candidates.find((c) => c.worker === worker)?.ttftMs;
  const own = ttftOf(a);
  const { prefill } = a;
  if (prefill === undefined) return { cachedTokens: a.predictedCachedTokens, ttftMs: own };
  const first = ttftOf(prefill);
  const ttftMs = own === undefined || first === undefined ? undefined : own + first;
  return { cachedTokens: prefill.predictedCachedTokens, ttftMs };
}

function printOutcome({ outcome, attempts }: DecisionRecord, cli: Pick<CliContext, "out">): void {
  cli.out("");
  if (outcome === undefined) {
    cli.out("still running");
    return;
  }
  const status = outcome.status === undefined ? "" : `, HTTP ${outcome.status}`;
  cli.out(
    `outcome ${outcome.result}${status}, ${outcome.totalMs.toFixed(1)} ms${outcome.error === undefined ? "" : `: ${outcome.error}`}`,
  );
  const last = attempts.at(-1);
  const predicted = last === undefined ? undefined : predictionOf(last);
  const { cachedTokens, promptTokens } = outcome;
  const of = promptTokens === undefined ? "" : ` of ${promptTokens}`;
  const reported = cachedTokens === undefined ? `the engine reported none${of}` : `engine ${cachedTokens}${of}`;
  cli.out(`cached tokens: predicted ${predicted?.cachedTokens ?? "-"}, ${reported}`);
  const verdict = outcome.prediction;
  if (verdict !== undefined && verdict.result !== "exact")
    cli.out(`  ${PREDICTIONS[verdict.result]}: ${verdict.reason}`);
  if (outcome.ttftMs !== undefined)
    cli.out(`TTFT: predicted ${predicted?.ttftMs?.toFixed(1) ?? "-"} ms, seen ${outcome.ttftMs.toFixed(1)} ms`);
}

const PREDICTIONS = {
  in_flight: "an event was still on its way",
  estimated: "an estimate",
  unexplained: "not explained",
} as const;

/** Columns padded to their widest cell; the first to the left, figures to the right. */
function table(rows: readonly (readonly string[])[]): string[] {
  const widths = rows[0]!.map((_, c) => Math.max(...rows.map((row) => row[c]!.length)));
  return rows.map((row) =>
    row.map((cell, c) => (c === 0 ? cell.padEnd(widths[c]!) : cell.padStart(widths[c]!))).join("  "),
  );
}
