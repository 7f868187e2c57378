import type { KvSource } from "../../core/worker.ts";
import { userValue } from "../args.ts";

/** `--slot-prompt-similarity` where it is not written (llama-server --help, October 2026). */
const MIN_SHARE = 0.1;
/** `--cache-ram` where it is not written, in MiB (llama-server --help, October 2026). */
const STORE_MIB = 8_192;
/**
 * Tokens that a MiB holds: those of a model of some 8 billion weights with grouped heads (128 KiB a token). Smaller models
 * keep more; what was believed gone and is not is a hit that was not predicted.
 */
const TOKENS_PER_MIB = 8;
/** What is believed of a store without a limit (`--cache-ram -1`). */
const UNLIMITED_TOKENS = 4_000_000;

/**
 * How a llama-server with so many slots keeps prompts. Sources: `get_available_slot`, `process_single_task` and
 * `server_prompt_cache` in tools/server of llama.cpp, October 2026, and the running server (xllamacpp 2026.10): with one
 * context shared by all slots a new request empties all free slots into the store (`--cache-idle-slots`); with a context a slot
 * the store gets a copy, and they keep their content.
 *
 * @param sharedContext `--kv-unified`, which holds where `--parallel` is left out
 * @param args what the user added to the command line
 */
export function llamaHistory(count: number, sharedContext: boolean, args: readonly string[]): KvSource {
  const share = Number(userValue(args, ["--slot-prompt-similarity", "-sps"]) ?? MIN_SHARE);
  const mib = Number(userValue(args, ["--cache-ram", "-cram"]) ?? STORE_MIB);
  const storeTokens = mib < 0 ? UNLIMITED_TOKENS : Math.floor(mib * TOKENS_PER_MIB);
  const savesFree = storeTokens > 0 && userValue(args, ["--no-cache-idle-slots"]) === undefined;
  const rules = { count, minShare: Number.isFinite(share) ? share : MIN_SHARE, storeTokens: storeTokens || 0 };
  return {
    type: "history",
    entries: count,
    slots: { ...rules, emptiesFree: savesFree && sharedContext, ...(savesFree ? { savesFree } : {}) },
  };
}
