import { isAbsolute, resolve } from "node:path";
import { CgnError } from "../core/errors.ts";
import { KV_OFFLOADS, type KvOffload } from "../core/kv-offload.ts";
import { parseDurationMs } from "../core/units.ts";
import { DEFAULT_BATCHED_TOKENS, DEFAULT_SEQUENCES } from "../sim/replay/engine-setup.ts";
import { openTrace, type Trace } from "../sim/replay/read-trace.ts";
import type { EngineFailure, ReplayAdmission } from "../sim/replay/replay-options.ts";
import type { CliContext, Option, Values } from "./command.ts";

const COUNT = { type: "number", value: "N", whole: true, min: 1, max: 100_000_000 } as const;
const GIB = { type: "number", value: "GIB", min: 0, max: 1_000_000 } as const;
const SHARE = { type: "number", value: "SHARE", min: 0, max: 1 } as const;

/** Options about the trace itself, of `cgn replay` and `cgn plan`. */
export const TRACE_OPTIONS = {
  limit: { ...COUNT, about: "only the first N requests" },
  skip: { ...COUNT, about: "pass over the first N requests" },
  repeat: { ...COUNT, max: 10_000, default: 1, about: "play the trace N times, each time with new blocks" },
  speed: {
    type: "number",
    value: "X",
    default: 1,
    min: 0.001,
    max: 100_000,
    about: "divide the times between requests",
  },
  "prefix-share": {
    ...SHARE,
    default: 0,
    about: "for traces without blocks: share of each prompt that an earlier one began with",
  },
  "block-size": { ...COUNT, max: 65_536, about: "tokens a block, for traces without blocks (default 16)" },
  seed: {
    type: "number",
    value: "N",
    default: 1,
    whole: true,
    min: 0,
    max: 4_294_967_295,
    about: "of everything that is drawn",
  },
} as const satisfies Record<string, Option>;

/** Options about what each engine is like, but for memory. */
export const ENGINE_OPTIONS = {
  "max-batched-tokens": {
    ...COUNT,
    default: DEFAULT_BATCHED_TOKENS,
    about: "tokens computed in one step of an engine",
  },
  "max-seqs": { ...COUNT, max: 100_000, default: DEFAULT_SEQUENCES, about: "requests that an engine runs at once" },
} as const satisfies Record<string, Option>;

/** Options about one fleet. */
export const FLEET_OPTIONS = {
  engines: { ...COUNT, max: 4096, default: 8, about: "how many engines" },
  pd: { type: "string", value: "P:D", about: "prefill engines and decode engines, instead of --engines" },
  "colocate-below": {
    type: "number",
    value: "TOKENS",
    default: 256,
    whole: true,
    min: 0,
    max: 10_000_000,
    about: "with --pd: prompts with fewer uncached tokens are not split",
  },
  blocks: {
    type: "number",
    value: "N",
    whole: true,
    min: 0,
    max: 100_000_000,
    about: "device blocks an engine; 0: no limit (default: as many as the profile's memory holds)",
  },
  "kv-offload": {
    type: "string",
    choices: KV_OFFLOADS,
    default: "none",
    about: "what keeps blocks that fall off the device",
  },
  "host-gib": { ...GIB, default: 0, about: "host memory for that, each engine" },
  "disk-gib": { ...GIB, default: 0, about: "disk for that, each engine" },
  ...ENGINE_OPTIONS,
} as const satisfies Record<string, Option>;

/** Options about routers and what they know. */
export const ROUTER_OPTIONS = {
  routers: {
    ...COUNT,
    max: 1024,
    default: 1,
    about: "routers that share the requests evenly; they see each other's bookings with --share-bookings only",
  },
  "share-bookings": {
    type: "string",
    value: "DELAY",
    about: "routers hear of each other's bookings after this time, for example 50ms",
  },
  knowledge: {
    type: "string",
    choices: ["events", "history"],
    default: "events",
    about: "how routers know caches: KV events, or what they sent",
  },
  "knowledge-delay": {
    type: "string",
    value: "DELAY",
    default: "5ms",
    about: "from a block's storing to the router's knowing",
  },
  "history-entries": { ...COUNT, default: 32, about: "prompts remembered for each engine (knowledge history)" },
  "lose-events": { ...SHARE, default: 0, about: "share of KV event batches that never arrive" },
  fail: {
    type: "string[]",
    value: "ENGINE@T+D",
    about: "engine fails at T for D and comes back empty: 0@10m+30s. May be repeated",
  },
  "max-queue": {
    type: "number",
    value: "N",
    whole: true,
    min: 0,
    max: 1_000_000,
    about: "as router.admission.max_queue",
  },
  "max-concurrent": { ...COUNT, about: "as router.admission.max_concurrent_per_replica" },
  "queue-timeout": { type: "string", value: "DURATION", about: "as router.admission.queue_timeout" },
  "ttft-slo": { type: "string", value: "DURATION", about: "as router.admission.ttft_slo" },
} as const satisfies Record<string, Option>;

/** Open the trace that the command names. @throws CgnError TRACE_INVALID */
export function traceOf(file: string, options: Values, cli: CliContext): Promise<Trace> {
  return openTrace({
    file: isAbsolute(file) ? file : resolve(cli.cwd, file),
    limit: optional(options["limit"]),
    skip: optional(options["skip"]),
    repeat: Number(options["repeat"]),
    speed: Number(options["speed"]),
    prefixShare: Number(options["prefixShare"]),
    blockTokens: optional(options["blockSize"]),
    seed: Number(options["seed"]),
  });
}

export const kvOffloadOf = (options: Values): KvOffload => options["kvOffload"] as KvOffload;

/** A number, where it was given. */
export function optional(value: Values[string]): number | undefined {
  return typeof value === "number" ? value : undefined;
}

/** A duration option in milliseconds. @throws CgnError BAD_INVOCATION */
export function durationOf(options: Values, name: string, flag: string): number | undefined {
  const text = options[name];
  if (text === undefined) return undefined;
  const ms = parseDurationMs(String(text));
  if (ms === undefined)
    throw bad(`Cannot read ${flag} ${String(text)}: it is no duration. Write it as 800ms, 5s or 1m30s`);
  return ms;
}

/** `P:D`. @throws CgnError BAD_INVOCATION */
export function splitOf(text: string): { readonly prefill: number; readonly decode: number } {
  const [, prefill, decode] = /^(\d{1,4}):(\d{1,4})$/.exec(text) ?? [];
  if (Number(prefill) >= 1 && Number(decode) >= 1) return { prefill: Number(prefill), decode: Number(decode) };
  throw bad(`Cannot split engines as "${text}": it is not PREFILL:DECODE. Write for example 2:6`);
}

/** `ENGINE@T+D`, several. @throws CgnError BAD_INVOCATION */
export function failuresOf(options: Values, engines: number): readonly EngineFailure[] {
  return ((options["fail"] as readonly string[] | undefined) ?? []).map((text) => {
    const [, engine, at, length] = /^(\d+)@([^+]+)\+(.+)$/.exec(text) ?? [];
    const [atMs, forMs] = [parseDurationMs(at ?? ""), parseDurationMs(length ?? "")];
    if (engine === undefined || atMs === undefined || forMs === undefined) {
      throw bad(`Cannot let an engine fail as "${text}": it is not ENGINE@TIME+DURATION. Write for example 0@10m+30s`);
    }
    if (Number(engine) >= engines) throw bad(`Cannot let engine ${engine} fail: there are ${engines}, counted from 0`);
    return { engine: Number(engine), at: atMs, forMs };
  });
}

export function admissionOf(options: Values): ReplayAdmission {
  return {
    maxQueue: optional(options["maxQueue"]),
    maxConcurrentPerEngine: optional(options["maxConcurrent"]),
    queueTimeoutMs: durationOf(options, "queueTimeout", "--queue-timeout"),
    ttftSloMs: durationOf(options, "ttftSlo", "--ttft-slo"),
  };
}

export function bad(message: string): CgnError {
  return new CgnError("BAD_INVOCATION", message, {});
}
