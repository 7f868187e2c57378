import type { HandOver } from "../../core/hand-over.ts";
import type { LaunchPlan } from "../../core/launch-plan.ts";
import type { BodyEdits, Disaggregation, Legs } from "../disaggregation.ts";
import type { LaunchInput } from "../engine.ts";
import { sglangPeering } from "./requirements.ts";
import { DEFAULT_BOOTSTRAP_PORT } from "./sglang-offload.ts";
import type { SglangOptions } from "./sglang-options.ts";

type Json = Readonly<Record<string, unknown>>;

const FIELDS = ["bootstrap_host", "bootstrap_port", "bootstrap_room", "bootstrap_pair_key"] as const;

/** Above it SGLang is asked for nothing sensible: each prompt and choice has a room. */
const MAX_ROOMS = 1_024;

/**
 * SGLang: the same body goes to both legs at once, with a room at the prefill's bootstrap server; the prefill answers one token, the
 * decode all of them (seen on 0.5.23). Fields and their arrays for batches: smg, `routers/http/pd_router.rs`.
 */
export const sglangDisaggregation: Disaggregation = {
  ownMembers: [...FIELDS, "disagg_prefill_dp_rank"],
  adopted: (role, host, port) =>
    role === "prefill"
      ? { protocol: "bootstrap", host, port: port ?? DEFAULT_BOOTSTRAP_PORT }
      : { protocol: "bootstrap" },
  isTogether: () => true,
  whyWhole(path, body) {
    if (!SPLIT_PATHS.has(path)) return `${path} is not split`;
    const count = roomCount(body);
    return count > MAX_ROOMS ? `it asks for ${count} answers at once, and at most ${MAX_ROOMS} are split` : undefined;
  },
  prefillEdits: bootstrapEdits,
  decodeEdits(legs) {
    const { prefillRank } = legs;
    return {
      ...bootstrapEdits(legs),
      // protocol of 0.5.23: the decode must ask the rank that has the blocks.
      ...(prefillRank === undefined ? {} : { disagg_prefill_dp_rank: String(prefillRank) }),
    };
  },
  // What it answers is the decode's first token: all that counts came over the bootstrap server.
  readPrefill: () => ({ type: "handed-over", edits: {} }),
};

const SPLIT_PATHS: ReadonlySet<string> = new Set(["/v1/chat/completions", "/v1/completions", "/generate"]);

/** Both legs of one try get the same rooms; a batch has a room for each of its answers. */
function bootstrapEdits({ prefill, body, room }: Legs): BodyEdits {
  const each = (of: (index: number) => unknown): string =>
    JSON.stringify(isBatch(body) ? Array.from({ length: roomCount(body) }, (_, n) => of(n)) : of(0));
  return {
    bootstrap_host: each(() => prefill.host ?? "127.0.0.1"),
    bootstrap_port: each(() => prefill.port ?? null),
    bootstrap_room: each(room),
    disagg_prefill_dp_rank: undefined,
    bootstrap_pair_key: undefined,
  };
}

/** The list of prompts of a batch; one prompt of token ids is none. */
function batchOf({ prompt, text, input_ids: ids }: Json): readonly unknown[] | undefined {
  const list = [prompt, text, ids].find(Array.isArray);
  return list === undefined || list.every((each) => typeof each === "number") ? undefined : list;
}

function choiceCount(body: Json): number {
  const { n } = body;
  return typeof n === "number" && n > 1 ? Math.floor(n) : 1;
}

const roomCount = (body: Json): number => (batchOf(body)?.length ?? 1) * choiceCount(body);

const isBatch = (body: Json): boolean => batchOf(body) !== undefined || choiceCount(body) > 1;

/** What routers must know to hand over by this engine. Undefined for role `both`. */
export function sglangHandOver(input: LaunchInput<SglangOptions>, plan: LaunchPlan): HandOver | undefined {
  const peering = sglangPeering(input, plan);
  if (peering === undefined) return undefined;
  const base = { protocol: "bootstrap", peering } as const;
  if (input.role !== "prefill") return base;
  const port = plan.ports.find(({ name }) => name === "bootstrap")?.port;
  return { ...base, host: peering.address, ...(port === undefined ? {} : { port }) };
}
