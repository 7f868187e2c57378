import type { WorkerId } from "../core/ids.ts";
import type { WorkerInfo } from "../core/worker.ts";
import type { Disaggregation } from "../engines/disaggregation.ts";
import type { TransferRates } from "../routing/transfer-rates.ts";
import {
  book,
  type Choice,
  type Chooser,
  type Proposal,
  propose,
  type Question,
  requireSlo,
  uncachedTokens,
} from "./choose.ts";
import type { ModelGroup } from "./fleet.ts";
import { type Pairing, type Parts, partsOfGroup } from "./pairs.ts";

/** How a request is computed: on one worker, or its prompt on one and its answer on another. Chosen and booked. */
export type Way =
  | { readonly type: "whole"; readonly choice: Choice; readonly note?: string }
  | { readonly type: "split"; readonly prefill: Choice; readonly decode: Choice; readonly protocol: Disaggregation };

/** What is known of splitting requests. */
export interface Splitter {
  /** `[router.disagg].colocate_below_tokens`: a shorter uncached prompt is computed where it is decoded. */
  readonly colocateBelowTokens: number;
  /** A prefill leg without an answer for so long has failed. */
  readonly prefillTimeoutMs: number;
  protocolOf(worker: WorkerInfo): Disaggregation | undefined;
  rates(decode: WorkerId): TransferRates;
}

/** The part of a request by which it is decided whether it can be split. */
export interface SplitQuestion {
  readonly path: string;
  readonly json: Readonly<Record<string, unknown>> | undefined;
  /** Its body was not read whole. */
  readonly unmatched: string | undefined;
}

/**
 * Choose and book in one synchronous step. One currency for all: predicted time to first token; of two equal ways the one without
 * a hand-over. Undefined when all that could take it are in `tried`.
 * @throws CgnError OVERLOADED when even the best way's predicted TTFT is above the written limit
 */
export function chooseWay(
  c: Chooser,
  s: Splitter,
  group: ModelGroup,
  q: Question,
  asked: SplitQuestion,
  tried: ReadonlySet<WorkerId>,
): Way | undefined {
  const parts = partsOfGroup(group.ready);
  const { model } = group;
  const why = whyWhole(s, parts, asked);
  const pair = why === undefined ? proposePair(c, s, model, parts.pairings, q, tried) : undefined;
  const whole = proposeWhole(c, s, model, parts, q, tried, pair !== undefined);
  if (pair !== undefined && (whole === undefined || pair.ttftMs < whole.ttftMs)) {
    requireSlo(c, model, [pair.prefill, pair.decode]);
    return { type: "split", prefill: book(c, pair.prefill), decode: book(c, pair.decode, 0), protocol: pair.protocol };
  }
  if (whole === undefined) return undefined;
  requireSlo(c, model, [whole]);
  return { type: "whole", choice: book(c, whole), ...(why === undefined ? {} : { note: why }) };
}

/** Why this request is not split although there are pairs; undefined: it may be, or there are none. */
function whyWhole(s: Splitter, { pairings }: Parts, { path, json, unmatched }: SplitQuestion): string | undefined {
  const [first] = pairings;
  if (first === undefined) return undefined;
  if (unmatched !== undefined || json === undefined) return "its body was not read whole";
  return s.protocolOf(first.prefill)?.whyWhole(path, json) ?? undefined;
}

function proposeWhole(
  c: Chooser,
  s: Splitter,
  model: string,
  parts: Parts,
  q: Question,
  tried: ReadonlySet<WorkerId>,
  canSplit: boolean,
): Proposal | undefined {
  const free = (workers: readonly WorkerInfo[]): readonly WorkerInfo[] =>
    tried.size === 0 ? workers : workers.filter(({ id }) => !tried.has(id));
  // A long prompt on a decode worker stalls the streams there: only where it must be.
  const decodes = free(parts.decodeWhole);
  const short = canSplit
    ? decodes.filter((worker) => uncachedTokens(c, worker, model, q) < s.colocateBelowTokens)
    : decodes;
  const best = propose(c, short.length === 0 ? free(parts.whole) : [...free(parts.whole), ...short], model, q);
  return best ?? (canSplit ? undefined : propose(c, free(parts.prefillWhole), model, q));
}

interface PairProposal {
  readonly prefill: Proposal;
  readonly decode: Proposal;
  readonly protocol: Disaggregation;
  readonly ttftMs: number;
}

/** The prefill worker as any worker is chosen; then, of those that go with it, the decode worker by load and by what it must fetch. */
function proposePair(
  c: Chooser,
  s: Splitter,
  model: string,
  pairings: readonly Pairing[],
  q: Question,
  tried: ReadonlySet<WorkerId>,
): PairProposal | undefined {
  const open = pairings.filter(
    ({ prefill, decodes }) => !tried.has(prefill.id) && decodes.some(({ id }) => !tried.has(id)),
  );
  const prefill = propose(
    c,
    open.map((pairing) => pairing.prefill),
    model,
    q,
    `${model}\0prefill`,
  );
  if (prefill === undefined) return undefined;
  const { decodes } = open.find((pairing) => pairing.prefill === prefill.worker)!;
  const decode = propose(
    c,
    decodes.filter(({ id }) => !tried.has(id)),
    model,
    q,
    `${model}\0decode`,
    (snapshot) => {
      const { baseMs, perTokenMs } = s.rates(snapshot.id).rate();
      // What it does not hold itself it fetches; its own prompts' queue does not matter to it.
      const fetchedMs = snapshot.uncachedTokens * perTokenMs;
      return {
        ...snapshot,
        queuedTokens: 0,
        uncachedTokens: 0,
        rates: { ...snapshot.rates, baseMs: baseMs + fetchedMs },
      };
    },
  );
  const protocol = s.protocolOf(prefill.worker);
  if (decode === undefined || protocol === undefined) return undefined;
  return { prefill, decode, protocol, ttftMs: prefill.ttftMs + decode.ttftMs };
}
