import type { BadVersions } from "../../core/host-needs.ts";
import { inRange } from "../../core/version.ts";
import { type EngineVersions, renderedFor } from "../engine-versions.ts";

/**
 * Read in the wheels of vLLM 0.16 to 0.33 (`vllm/engine/arg_utils.py`, `vllm/config/`, `kv_connector/factory.py`,
 * `v1/core/kv_cache_utils.py`, `distributed/kv_events.py`); 0.32.0 and 0.33.0 were asked with their own parsers.
 */
export const VLLM_VERSIONS: EngineVersions = {
  range: ">=0.24.0 <0.34",
  newest: "0.33.0",
  changes: [
    { since: "0.18", what: "`--shutdown-timeout` is rendered; older ones have no such flag" },
    { since: "0.24", what: "KV events are maps; older ones are tagged arrays (both are read)" },
    { since: "0.29", what: "block hashes no longer depend on `PYTHONHASHSEED` where it is not set" },
    {
      since: "0.32",
      what: "`kv_rank`, `kv_parallel_size`, `kv_ip` and `kv_buffer_size` are refused in `--kv-transfer-config`",
    },
    { since: "0.33", what: "`--disable-log-requests` is accepted (0.24 to 0.32 refuse it)" },
  ],
};

/** What differs between versions in what cgn renders or checks. */
export interface VllmFeatures {
  readonly shutdownTimeout: boolean;
  /** `kv_rank` and its like are keys of `--kv-transfer-config`. */
  readonly oldTransferKeys: boolean;
  /** Is `--disable-log-requests` refused? Undefined: depends on the version, which is not known. */
  readonly refusesDisableLogRequests: boolean | undefined;
}

/** @param found the installed version; undefined renders for the newest known */
export function vllmFeatures(found: string | undefined): VllmFeatures {
  const { version, how } = renderedFor(found, VLLM_VERSIONS);
  return {
    shutdownTimeout: inRange(version, ">=0.18"),
    oldTransferKeys: inRange(version, "<0.32"),
    refusesDisableLogRequests: how === "assumed" ? undefined : inRange(version, ">=0.11 <0.33"),
  };
}

/** Versions that are known not to go together. With a newer LMCache the plan itself warns: nobody has said that it is mended. */
export const VLLM_BAD_VERSIONS: readonly BadVersions[] = [
  {
    packages: { vllm: "==0.26.*", lmcache: "<0.5.6" },
    severity: "error",
    what: "answers with wrong text after a cache hit (vllm-project/vllm#52617, ai-dynamo/dynamo#14416)",
    remedy: "Use vLLM 0.32 or newer",
    install: ["vllm>=0.32"],
  },
];
