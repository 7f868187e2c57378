import { inRange } from "../../core/version.ts";
import { type EngineVersions, renderedFor } from "../engine-versions.ts";
import { STORAGE_BACKENDS } from "./sglang-options.ts";

/**
 * Read in the wheels of SGLang 0.5.10 to 0.5.23 (`srt/server_args.py`, `srt/arg_groups/`, `srt/disaggregation/kv_events.py`);
 * 0.5.23 was asked with its own parser.
 */
export const SGLANG_VERSIONS: EngineVersions = {
  range: ">=0.5.10 <0.6",
  newest: "0.5.23",
  changes: [
    { since: "0.5.11", what: "`hicache.decode_radix` (`--disaggregation-decode-enable-radix-cache`); refused before" },
    { since: "0.5.11 to 0.5.22", what: "`hicache.storage` has more choices; those of the installed version are taken" },
    { since: "0.5.13", what: "transfer backend `mooncake_tcp` in `extra_args`" },
    { since: "0.5.19", what: "`--hicache-host-memory-mode` in `extra_args`; refused before" },
    { since: "0.5.22", what: "keys `bind` and `format` of `--kv-events-config`; dropped without a word before" },
  ],
};

export interface SglangFeatures {
  readonly version: string;
  /** Choices of `--hicache-storage-backend`. */
  readonly storage: readonly string[];
  readonly decodeRadix: boolean;
  readonly transferBackends: readonly string[];
  readonly hostMemoryMode: boolean;
  readonly eventBind: boolean;
}

/** Storage backends that came after 0.5.10, with the first version that takes each. */
const STORAGE_SINCE: Readonly<Record<string, string>> = {
  simm: "0.5.11",
  mori: "0.5.15",
  shm: "0.5.17",
  sim: "0.5.19",
  npu_memcache: "0.5.20",
  tensorcast: "0.5.21",
  seaweedfs: "0.5.22",
};

/** @param found the installed version; undefined renders for the newest known */
export function sglangFeatures(found: string | undefined): SglangFeatures {
  const { version } = renderedFor(found, SGLANG_VERSIONS);
  const since = (first: string): boolean => inRange(version, `>=${first}`);
  return {
    version,
    storage: STORAGE_BACKENDS.filter((name) => since(STORAGE_SINCE[name] ?? "0")),
    decodeRadix: since("0.5.11"),
    transferBackends: ["mooncake", "nixl", "ascend", "fake", "mori", ...(since("0.5.13") ? ["mooncake_tcp"] : [])],
    hostMemoryMode: since("0.5.19"),
    eventBind: since("0.5.22"),
  };
}
