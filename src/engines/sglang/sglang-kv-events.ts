import type { PlanPort } from "../../core/launch-plan.ts";
import type { KvSource } from "../../core/worker.ts";
import { dialEndpoint, parseTcpEndpoint } from "../address.ts";
import { type Arg, arg, userValue } from "../args.ts";
import type { LaunchInput } from "../engine.ts";
import { countOf, fieldsOf, readJson, textOf } from "../probe-text.ts";
import { sidePort } from "../side-ports.ts";
import type { SglangOptions } from "./sglang-options.ts";

type Input = LaunchInput<SglangOptions>;

const FLAG = "--kv-events-config";
const SOURCE = "SGLang 0.5.23, srt/disaggregation/kv_events.py";

/** Ranks that become workers of their own; a typing error must not make a million. */
const MAX_RANKS = 1024;

/** Prompts that a worker is believed to keep when it publishes no events. */
const HISTORY_ENTRIES = 256;

/** Where a worker publishes its KV events. */
interface EventsConfig {
  readonly endpoint: string;
  readonly replay: string | undefined;
  readonly topic: string;
}

/** `--kv-events-config`, unless the user wrote it himself (then `composeArgs()` leaves this one out). */
export function eventArgs(input: Input): Arg[] {
  const { endpoint, replay, topic } = rendered(input);
  const config = JSON.stringify({ publisher: "zmq", endpoint, replay_endpoint: replay, topic });
  const why =
    "cgn-kvcached reads what the worker caches. `*` makes SGLang bind, an address would connect; replay fills gaps";
  return arg(FLAG, config, why, SOURCE);
}

/** Ports of the publisher, one a data-parallel rank. */
export function eventPorts(input: Input): PlanPort[] {
  const config = effective(input);
  if (config === undefined) return [];
  const ranks = dpSize(input);
  const port = (name: string, endpoint: string | undefined): PlanPort[] => {
    const bound = endpoint === undefined ? undefined : parseTcpEndpoint(endpoint);
    return bound === undefined ? [] : [{ name, port: bound.port, ...(ranks > 1 ? { count: ranks } : {}) }];
  };
  return [...port("kv-events", config.endpoint), ...port("kv-replay", config.replay)];
}

/** The sources of the data-parallel ranks from 1 on; undefined when there is one rank. */
export function rankSources(input: Input): KvSource[] | undefined {
  const ranks = Math.min(dpSize(input), MAX_RANKS);
  return ranks < 2 ? undefined : Array.from({ length: ranks - 1 }, (_, i) => eventSource(input, i + 1));
}

function dpSize(input: Input): number {
  return countOf(Number(userValue(userArgs(input), ["--dp-size", "--data-parallel-size"]))) ?? 1;
}

/** The source of one rank, as this host dials it: its endpoints are the configured ones plus the rank. */
export function eventSource(input: Input, rank = 0): KvSource {
  const config = effective(input);
  if (config === undefined) return { type: "history", entries: HISTORY_ENTRIES };
  const { host } = input.slot;
  return {
    type: "events",
    endpoint: dialEndpoint(config.endpoint, host, rank),
    ...(config.replay === undefined ? {} : { replay: dialEndpoint(config.replay, host, rank) }),
    topic: config.topic,
    dpRank: rank,
    origin: "agent",
  };
}

function userArgs({ options, model }: Input): readonly string[] {
  return [...options.extra_args, ...model.extraArgs];
}

function rendered({ slot, model }: Input): EventsConfig {
  return {
    endpoint: `tcp://*:${sidePort(slot, "kvEvents")}`,
    replay: `tcp://*:${sidePort(slot, "kvReplay")}`,
    topic: `kv@${slot.peerAddress}:${slot.port}@${model.name}`,
  };
}

/** What holds in the end; undefined when events are off (SGLang's publisher is "null" unless it is set). */
function effective(input: Input): EventsConfig | undefined {
  const written = userValue(userArgs(input), [FLAG]);
  if (written === undefined) return rendered(input);
  const fields = fieldsOf(readJson(written));
  if (fields["publisher"] !== "zmq") return undefined;
  return {
    endpoint: textOf(fields["endpoint"]) ?? "tcp://*:5557",
    replay: textOf(fields["replay_endpoint"]),
    topic: textOf(fields["topic"]) ?? "",
  };
}
