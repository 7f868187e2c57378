import type { Problem } from "../../core/errors.ts";
import { userFlags, userValue, userWrote } from "../args.ts";
import { fieldsOf, readJson } from "../probe-text.ts";
import { EXTRA_ARGS_PATH, RULES, type VllmLaunch } from "./vllm-context.ts";

/** Choices of flags that users carry over from older releases (vLLM 0.24.0 to 0.33.0, `vllm/config/cache.py`). */
const CHOICES: Readonly<Record<string, readonly string[]>> = {
  "--prefix-caching-hash-algo": ["sha256", "sha256_cbor", "xxhash", "xxhash_cbor"],
};

/** Flags that every release from 0.24.0 on refuses at start. */
const GONE: Readonly<Record<string, string>> = {
  "--swap-space": "Remove it: swapping to CPU memory is gone",
};

/** Fields of vLLM's KVEventsConfig (0.24.0 to 0.33.0, `vllm/config/kv_events.py`); argparse refuses any other. */
const EVENT_KEYS = [
  "enable_kv_cache_events",
  "publisher",
  "endpoint",
  "replay_endpoint",
  "buffer_steps",
  "hwm",
  "max_queue_size",
  "topic",
];

/** What vLLM's own parser refuses in the values that a user wrote, known before a start that takes half a minute. */
export function valueProblems({ userArgs }: VllmLaunch): Problem[] {
  return [...choiceProblems(userArgs), ...goneProblems(userArgs), ...eventProblems(userArgs)];
}

function problem(text: string, remedy: string): Problem {
  return { severity: "error", path: EXTRA_ARGS_PATH, problem: text, remedy };
}

function choiceProblems(userArgs: readonly string[]): Problem[] {
  return Object.entries(CHOICES).flatMap(([flag, known]) => {
    const value = userValue(userArgs, [flag], RULES);
    if (value === undefined || known.includes(value)) return [];
    return [problem(`${flag} ${value} is no choice of vLLM`, `Use one of ${known.join(", ")}`)];
  });
}

function goneProblems(userArgs: readonly string[]): Problem[] {
  return Object.entries(GONE)
    .filter(([flag]) => userWrote(userArgs, [flag], RULES))
    .map(([flag, remedy]) => problem(`vLLM has no flag ${flag}, and does not start with it`, remedy));
}

function eventProblems(userArgs: readonly string[]): Problem[] {
  const flag = "--kv-events-config";
  return userFlags(userArgs, [flag], RULES)
    .filter(({ name }) => !name.includes("."))
    .flatMap(({ values }) => Object.entries(fieldsOf(readJson(values[0] ?? ""))))
    .flatMap(([key, value]) => {
      if (!EVENT_KEYS.includes(key)) return [problem(`${flag} has no key "${key}"`, `Keys: ${EVENT_KEYS.join(", ")}`)];
      if (key !== "publisher" || value === "zmq" || value === "null" || value === null) return [];
      return [problem(`${flag} has a wrong publisher: ${JSON.stringify(value)}`, 'Use "zmq", or "null" for no events')];
    });
}
