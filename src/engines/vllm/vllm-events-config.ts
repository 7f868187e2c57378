import type { Problem } from "../../core/errors.ts";
import type { KvSource } from "../../core/worker.ts";
import { dialEndpoint, parseTcpEndpoint } from "../address.ts";
import { arg, userFlags, userWrote } from "../args.ts";
import { fieldsOf, readJson } from "../probe-text.ts";
import { MAX_EVENT_RANKS, sidePort } from "../side-ports.ts";
import { EXTRA_ARGS_PATH, type PlanPart, RULES, type VllmLaunch } from "./vllm-context.ts";

const FLAG = "--kv-events-config";
const SOURCE = "vllm/config/kv_events.py, vLLM 0.32.0";

/** What vLLM 0.32.0 assumes where a key of the flag is missing. */
const ENGINE_DEFAULTS = { endpoint: "tcp://*:5557", topic: "" } as const;

/** Ranks that become workers of their own; a typing error must not make a million. */
const MAX_RANKS = 1024;

/** How many prompts are believed to be cached when an engine publishes nothing. */
const HISTORY_ENTRIES = 256;

/** Where an engine publishes its KV events. */
interface EventsConfig {
  /** Did the user write it himself? */
  readonly written: boolean;
  readonly endpoint: string;
  readonly replay: string | undefined;
  readonly topic: string;
}

/**
 * The flag that turns KV events on, and the ports it opens: one a data-parallel rank, for events and for replay.
 * Nothing when the user turned events off or wrote the flag himself.
 */
export function eventsPart(launch: VllmLaunch): PlanPart {
  const problems = eventProblems(launch);
  const events = readEvents(launch);
  if (events === undefined) return { problems };
  const flag = JSON.stringify({
    enable_kv_cache_events: true,
    publisher: "zmq",
    endpoint: events.endpoint,
    ...(events.replay === undefined ? {} : { replay_endpoint: events.replay }),
    topic: events.topic,
  });
  const why =
    "cgn-kvcached reads what the engine caches from its events. `*` makes vLLM bind (an address would connect); replay fills gaps";
  return {
    args: events.written ? [] : arg(FLAG, flag, why, SOURCE),
    ports: [...portsOf("kv-events", events.endpoint, launch), ...portsOf("kv-replay", events.replay, launch)],
    problems,
    warnings: userWrote(launch.userArgs, ["--no-enable-prefix-caching"])
      ? [
          {
            code: "events-without-prefix-caching",
            message: "--no-enable-prefix-caching is written, so the engine caches nothing and publishes no KV events",
            remedy: "Remove --no-enable-prefix-caching, or set engine.vllm.kv_events = false",
          },
        ]
      : [],
  };
}

/** The sources of the data-parallel ranks from 1 on; undefined when there is one rank. */
export function rankSources(launch: VllmLaunch): KvSource[] | undefined {
  if (launch.dpSize < 2) return undefined;
  return Array.from({ length: Math.min(launch.dpSize, MAX_RANKS) - 1 }, (_, i) => eventSource(launch, i + 1));
}

/** The source that the router's index reads for one rank: its endpoints are the configured ones plus the rank. */
export function eventSource(launch: VllmLaunch, rank = 0): KvSource {
  const events = readEvents(launch);
  if (events === undefined) return { type: "history", entries: HISTORY_ENTRIES };
  const { host } = launch.input.slot;
  return {
    type: "events",
    endpoint: dialEndpoint(events.endpoint, host, rank),
    ...(events.replay === undefined ? {} : { replay: dialEndpoint(events.replay, host, rank) }),
    topic: events.topic,
    dpRank: rank,
    origin: "agent",
  };
}

/** Undefined: events are off. */
function readEvents(launch: VllmLaunch): EventsConfig | undefined {
  const { slot, model, options } = launch.input;
  const written = writtenConfig(launch);
  if (written !== undefined) {
    if (written["enable_kv_cache_events"] !== true) return undefined;
    const text = (key: string): string | undefined =>
      typeof written[key] === "string" ? (written[key] as string) : undefined;
    return {
      written: true,
      endpoint: text("endpoint") ?? ENGINE_DEFAULTS.endpoint,
      replay: text("replay_endpoint"),
      topic: text("topic") ?? ENGINE_DEFAULTS.topic,
    };
  }
  if (!options.kv_events) return undefined;
  return {
    written: false,
    endpoint: `tcp://*:${sidePort(slot, "kvEvents")}`,
    replay: `tcp://*:${sidePort(slot, "kvReplay")}`,
    topic: `kv@${slot.peerAddress}:${slot.port}@${model.name}`,
  };
}

/** The user's own flag as one table: its JSON, then dotted keys over it. Undefined: not written. */
function writtenConfig(launch: VllmLaunch): Record<string, unknown> | undefined {
  const flags = userFlags(launch.userArgs, [FLAG], RULES);
  if (flags.length === 0) return undefined;
  const config: Record<string, unknown> = {};
  for (const flag of flags) {
    const dot = flag.name.indexOf(".");
    const value = flag.values[0] ?? "";
    if (dot < 0) Object.assign(config, fieldsOf(readJson(value)));
    else config[flag.name.slice(dot + 1)] = /^(true|false|\d+)$/i.test(value) ? readJson(value.toLowerCase()) : value;
  }
  return config;
}

function portsOf(name: string, endpoint: string | undefined, launch: VllmLaunch): PlanPart["ports"] & object {
  const bound = endpoint === undefined ? undefined : parseTcpEndpoint(endpoint);
  if (bound === undefined) return [];
  return [{ name, port: bound.port, ...(launch.dpSize > 1 ? { count: launch.dpSize } : {}) }];
}

function eventProblems(launch: VllmLaunch): Problem[] {
  const problem = (text: string, remedy: string): Problem => ({
    severity: "error",
    path: EXTRA_ARGS_PATH,
    problem: text,
    remedy,
  });
  const flags = userFlags(launch.userArgs, [FLAG], RULES).filter((flag) => !flag.name.includes("."));
  const broken = flags.filter((flag) => typeof readJson(flag.values[0] ?? "") !== "object");
  const problems = broken.map((flag) =>
    problem(
      `${FLAG} is no JSON object: ${flag.values[0] ?? ""}`,
      `Write one, for example {"enable_kv_cache_events":true}`,
    ),
  );
  if (launch.dpSize > MAX_EVENT_RANKS && flags.length === 0 && launch.input.options.kv_events) {
    const text = `${launch.dpSize} data-parallel ranks need more KV event ports than the ${MAX_EVENT_RANKS} of an engine`;
    problems.push(problem(text, `Write ${FLAG} with ports of your own, or set engine.vllm.kv_events = false`));
  }
  return problems;
}
