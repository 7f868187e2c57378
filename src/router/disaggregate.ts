import type { BodyEdits, Disaggregation, Legs, PrefillAnswer } from "../engines/disaggregation.ts";
import { forwardResponseHeaders } from "../http/headers.ts";
import type { UpstreamFailure } from "../http/upstream-failure.ts";
import type { Leg } from "../routing/load.ts";
import { noFacts } from "./answer.ts";
import type { Choice } from "./choose.ts";
import type { Way } from "./choose-way.ts";
import type { RouterCore } from "./core.ts";
import { forwardPlan } from "./forward.ts";
import { type Routed, runLeg } from "./leg.ts";
import { answerInStream } from "./opened-stream.ts";
import { type QuietEnd, QuietLeg } from "./prefill-leg.ts";
import { type LegRun, settle } from "./settle.ts";
import type { HeldAnswer, LegEnd } from "./sinks.ts";
import { signOf } from "./worker-health.ts";

/** A try of which the client got nothing. */
export interface FailedTry {
  readonly choice: Choice;
  readonly end: LegEnd & { type: "retry" };
}

/** How one try of a split request ended. */
interface SplitRun {
  /** The decode leg; undefined when it was never sent. */
  readonly decode: LegRun | undefined;
  /** Whose fault a failed try is, and what happened there. */
  readonly fault?: { readonly choice: Choice; readonly end: LegEnd & { type: "retry" | "broken" } };
  /** The prefill engine refused the request: its word goes to the client. */
  readonly refused?: HeldAnswer;
  readonly left?: true;
}

type Split = Way & { readonly type: "split" };

/** Where nobody wants the KV that a prefill engine keeps, so long is waited for a decode engine to fetch it. */
const RELEASE_MS = 15_000;

/**
 * Try a request on two workers, once.
 * @returns undefined when the client has its answer, of whatever kind; else what failed, and where
 */
export async function trySplit(
  core: RouterCore,
  routed: Routed,
  split: Split,
  fresh: boolean,
): Promise<FailedTry | undefined> {
  const { exchange, request, question, record } = routed;
  const sentMs = core.clock.now();
  const { decode, fault, refused } = await runSplit(core, routed, split, fresh);
  core.metrics.split(record.model, fault === undefined ? "ok" : "failed");
  if (refused !== undefined) {
    answerHeld(core, routed, split.prefill, refused);
    return undefined;
  }
  if (fault?.end.type === "retry") {
    if (routed.query !== undefined && decode !== undefined) {
      core.knowledge.unsent?.(split.decode.worker.id, routed.query);
      core.metrics.legEnded(split.decode.worker.id, "retried");
    }
    return { choice: fault.choice, end: fault.end };
  }
  const left: LegRun = {
    choice: split.decode,
    facts: noFacts(),
    end: { type: "left" },
    sentMs,
    firstMs: undefined,
    prefill: split.prefill,
  };
  settle(core, exchange, request, question.prompt, record, decode ?? left);
  return undefined;
}

/** The prefill engine's own word about the request (it is too long, a parameter is wrong): the decode engine would say the same. */
function answerHeld(core: RouterCore, { exchange, record }: Routed, { worker }: Choice, held: HeldAnswer): void {
  const { res } = exchange;
  const totalMs = core.clock.now() - exchange.startedMs;
  record.outcome = { result: "client_error", status: held.status, totalMs };
  if (exchange.cascade?.counts !== false)
    core.metrics.ended(record.model, "client_error", exchange.subject, { totalMs, firstMs: totalMs });
  if (exchange.opened) {
    answerInStream(exchange, held.status, held.body);
    return;
  }
  const own = { ...exchange.ticket.headers, "x-request-id": exchange.id, "x-cgn-prefill-node": worker.node };
  res.writeHead(held.status, { ...held.headers, ...own, "content-length": String(held.body.length) });
  res.end(held.body);
}

/**
 * One try: both legs, one life. Whatever ends one of them ends the other; bookings are given back; what the prefill leg handed over
 * serves this try only. Never throws but for a body that cannot be passed on.
 */
async function runSplit(core: RouterCore, routed: Routed, split: Split, fresh: boolean): Promise<SplitRun> {
  try {
    return await (isTogether(split) ? runTogether : runInTurn)(core, routed, split, fresh);
  } finally {
    split.prefill.booking.release();
    split.decode.booking.release();
  }
}

function isTogether({ prefill, protocol }: Split): boolean {
  const { handOver } = prefill.worker;
  return handOver !== undefined && protocol.isTogether(handOver);
}

function legsOf(core: RouterCore, { request, record }: Routed, { prefill, decode }: Split): Legs {
  const rooms: number[] = [];
  return {
    prefill: prefill.worker.handOver!,
    decode: decode.worker.handOver!,
    ...(prefill.worker.rank === undefined ? {} : { prefillRank: prefill.worker.rank.index }),
    body: request.json ?? {},
    tryId: `${record.id}-${record.attempts.length}`,
    room: (index) => (rooms[index] ??= Math.floor(core.random() * Number.MAX_SAFE_INTEGER)),
  };
}

/** Prefill first: its answer says what the decode engine must be told. */
async function runInTurn(core: RouterCore, routed: Routed, split: Split, fresh: boolean): Promise<SplitRun> {
  const { exchange } = routed;
  const { prefill, decode, protocol } = split;
  const legs = legsOf(core, routed, split);
  const leg = new QuietLeg(false);
  const beganMs = core.clock.now();
  exchange.onLeft = () => leg.cut();
  const end = await runPrefill(core, routed, split, leg, protocol.prefillEdits(legs), fresh);
  exchange.onLeft = undefined;
  const judged = judgePrefill(prefill, end);
  if (judged !== undefined) return judged;
  const answer = readPrefill(protocol, end as QuietEnd & { type: "answer" });
  settlePrefill(core, routed, prefill, answer.cachedTokens);
  const edits = answer.type === "handed-over" ? answer.edits : cleared(protocol);
  if (exchange.left) {
    release(core, routed, split, answer);
    return { decode: undefined, left: true };
  }
  const run = await runLeg(core, routed, decode, { fresh, edits, prefill });
  // One that was reached may have fetched it, and what is then in the place of those blocks is somebody else's.
  if (run.end.type === "retry" && run.end.failure.phase === "connect") release(core, routed, split, answer);
  return run.end.type === "retry" || run.end.type === "broken"
    ? faultOf(decode, run.end, "decode", run)
    : { decode: { ...run, beganMs } };
}

/** Both legs at once: they find each other. */
async function runTogether(core: RouterCore, routed: Routed, split: Split, fresh: boolean): Promise<SplitRun> {
  const { prefill, decode, protocol } = split;
  const legs = legsOf(core, routed, split);
  const edits = protocol.prefillEdits(legs);
  // An answer that is no stream is short, and says what the prefill engine found in its cache.
  const isWhole = edits["stream"] === "false";
  const leg = new QuietLeg(!isWhole);
  let relay: Leg | undefined;
  let failed: SplitRun | undefined;
  let promptedMs: number | undefined;
  let cachedTokens: number | undefined;
  const prefilling = runPrefill(core, routed, split, leg, edits, fresh).then((end) => {
    failed = judgePrefill(prefill, end);
    if (failed === undefined) promptedMs = core.clock.now();
    if (isWhole && end.type === "answer" && end.status === 200) cachedTokens = readPrefill(protocol, end).cachedTokens;
    // The decode engine would wait for it for minutes.
    if (failed !== undefined && failed.left === undefined)
      relay?.lost(`its prefill leg on ${prefill.worker.id} failed`);
  });
  const run = await runLeg(core, routed, decode, {
    fresh,
    edits: protocol.decodeEdits(legs),
    prefill,
    onRelay: (made) => {
      relay = made;
    },
  });
  leg.cut();
  await prefilling;
  if (run.end.type === "complete") {
    settlePrefill(core, routed, prefill, isWhole ? cachedTokens : run.facts.cachedTokens);
    return { decode: { ...run, promptedMs } };
  }
  // (A split request is not continued elsewhere: it is never left open.)
  if (run.end.type === "left" || run.end.type === "cut") return { decode: run };
  if (failed?.refused !== undefined && run.end.type === "retry") return { decode: run, refused: failed.refused };
  const fault = failed?.fault;
  if (fault !== undefined && run.end.type === "retry") return { decode: run, fault };
  return faultOf(decode, run.end, "decode", run);
}

/** Send the prefill leg and wait for its end. */
async function runPrefill(
  core: RouterCore,
  routed: Routed,
  { prefill }: Split,
  leg: QuietLeg,
  edits: BodyEdits,
  fresh: boolean,
): Promise<QuietEnd> {
  const { exchange, subject, request, query } = routed;
  const { worker, booking } = prefill;
  exchange.trace?.phase("prefill");
  exchange.trace?.note({ "cgn.worker": worker.id, "server.address": worker.url });
  const plan = forwardPlan(exchange, subject, request, worker, fresh, { edits, quiet: true });
  const load = core.loads.of(worker.id);
  const sentMs = core.clock.now();
  load.legs.add(leg);
  core.health.begun(worker);
  const cancel = core.clock.after(core.splitter.prefillTimeoutMs, () =>
    leg.onFailure({
      kind: "timeout",
      phase: "head",
      message: `no prefill within ${core.splitter.prefillTimeoutMs} ms`,
    }),
  );
  if (query !== undefined) core.knowledge.sent(worker.id, query);
  const end = await leg.run(core.upstreams, worker.url, plan.request);
  cancel();
  load.legs.delete(leg);
  booking.release();
  const { sign, why } = signOf(asLegEnd(end), fresh);
  core.health.told(worker, sign, sentMs, why);
  const answered = end.type === "answer" && end.status === 200;
  core.metrics.legEnded(worker.id, answered ? "ok" : end.type === "cut" ? "cancelled" : "upstream_error");
  if (answered) observePrefill(core, routed, prefill, core.clock.now() - sentMs);
  else if (query !== undefined) core.knowledge.unsent?.(worker.id, query);
  return end;
}

function asLegEnd(end: QuietEnd): LegEnd {
  if (end.type === "cut") return { type: "left" };
  return end.type === "failed" ? { type: "retry", failure: end.failure } : { type: "complete", status: end.status };
}

/** A failed try, with the leg's name in its message. */
function faultOf(
  choice: Choice,
  end: LegEnd & { type: "retry" | "broken" },
  leg: "prefill" | "decode",
  decode?: LegRun,
): SplitRun {
  const failure: UpstreamFailure = { ...end.failure, message: `its ${leg} leg: ${end.failure.message}` };
  return { decode, fault: { choice, end: { ...end, failure } } };
}

/** What a prefill leg's end means for the request; undefined: it did its work. */
function judgePrefill(choice: Choice, end: QuietEnd): SplitRun | undefined {
  if (end.type === "cut") return { decode: undefined, left: true };
  if (end.type === "failed") return faultOf(choice, { type: "retry", failure: end.failure }, "prefill");
  if (end.status === 200) return undefined;
  const headers = forwardResponseHeaders(end.headers);
  const held: HeldAnswer = { status: end.status, headers, body: end.body };
  if (end.status < 500) return { decode: undefined, refused: held };
  const failure: UpstreamFailure = {
    kind: "protocol",
    phase: "body",
    message: `it answered ${end.status}`,
  };
  return faultOf(choice, { type: "retry", failure, held }, "prefill");
}

function readPrefill(protocol: Disaggregation, { body }: QuietEnd & { type: "answer" }): PrefillAnswer {
  let parsed: unknown;
  try {
    parsed = JSON.parse(body.toString("utf8"));
  } catch {
    parsed = undefined;
  }
  return protocol.readPrefill(parsed);
}

const cleared = ({ ownMembers }: Disaggregation): BodyEdits =>
  Object.fromEntries(ownMembers.map((name) => [name, undefined]));

/** The prefill engine's rates: its leg is the prompt and one token. */
function observePrefill(core: RouterCore, { request }: Routed, choice: Choice, ttftMs: number): void {
  core.learning.observe(choice.worker.id, request.model ?? "", {
    uncachedTokens: Math.max(0, choice.promptTokens - choice.predictedTokens),
    queuedTokens: choice.queuedTokens,
    streams: choice.streams,
    ttftMs,
  });
}

/** What it found in its cache is told to the index, to hold against what was predicted. */
function settlePrefill(core: RouterCore, routed: Routed, choice: Choice, cachedTokens: number | undefined): void {
  const { request, query } = routed;
  if (cachedTokens !== undefined && request.readsCache) {
    const { promptTokens, predictedTokens } = choice;
    core.metrics.predicted(request.model ?? "", choice.worker.id, predictedTokens, cachedTokens, promptTokens);
  }
  if (query === undefined) return;
  core.knowledge.observe({
    worker: choice.worker.id,
    epoch: choice.worker.epoch,
    model: query.model,
    root: query.root,
    prompt: query.prompt,
    predictedTokens: choice.predictedTokens,
    ...(cachedTokens === undefined || !request.readsCache ? {} : { cachedTokens }),
  });
}

/**
 * Nobody fetches what the prefill engine keeps for this try: have a decode engine do it, for one token that nobody reads. vLLM keeps
 * such blocks until a lease ends (30 s on 0.32). In the background, bounded; the client does not wait for it.
 */
function release(core: RouterCore, routed: Routed, split: Split, answer: PrefillAnswer): void {
  const edits = answer.type === "handed-over" ? split.protocol.releaseEdits?.(answer.edits) : undefined;
  if (edits === undefined) return;
  const { exchange, subject, request, record } = routed;
  const { prefill, decode } = split;
  const other = core.fleet.pairedWith(prefill.worker, request.model ?? "").find(({ id }) => id !== decode.worker.id);
  const worker = other ?? decode.worker;
  const leg = new QuietLeg(false);
  const plan = forwardPlan(exchange, subject, request, worker, true, { edits, quiet: true });
  const cancel = core.clock.after(RELEASE_MS, () => leg.cut());
  core.loads.of(worker.id).legs.add(leg);
  void leg.run(core.upstreams, worker.url, plan.request).then((end) => {
    cancel();
    core.loads.of(worker.id).legs.delete(leg);
    const freed = end.type === "answer" && end.status === 200;
    core.metrics.released(freed);
    if (!freed) {
      core.log.warn("KV of a request that ended stays with its prefill engine until it lets go of it", {
        request: record.id,
        prefill: prefill.worker.id,
      });
    }
  });
}
