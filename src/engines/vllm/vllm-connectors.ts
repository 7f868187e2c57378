import type { Role } from "../../core/engine-kind.ts";
import { dialHost } from "../address.ts";
import type { VllmLaunch } from "./vllm-context.ts";
import { lmcachePort } from "./vllm-lmcache.ts";

/** A `KVTransferConfig` of vLLM (0.32.0, `vllm/config/kv_transfer.py`): the value of `--kv-transfer-config`, or a child in it. */
export type Connector = Readonly<Record<string, unknown>>;

export type KvRole = "kv_both" | "kv_producer" | "kv_consumer";

/** Of `PdConnector` and `DynamoConnector` (kvbm 1.6.1); vLLM's own registry has neither. */
export const KVBM_MODULE = "kvbm.vllm_integration.connector";

/** NIXL's role for an engine's role. `kv_both` is deprecated by vLLM and left for engines that may take either part. */
export const NIXL_ROLE: Readonly<Record<Role, KvRole>> = {
  both: "kv_both",
  prefill: "kv_producer",
  decode: "kv_consumer",
};

/** NIXL: hands KV from one engine to another. */
export function nixl(launch: VllmLaunch, kvRole: KvRole): Connector {
  return {
    kv_connector: "NixlConnector",
    kv_role: kvRole,
    ...(launch.input.slot.platform === "cpu" ? { kv_buffer_device: "cpu" } : {}),
  };
}

/**
 * What a failed load does to its request: `recompute` costs time, `fail` the request. Only the outermost connector's word
 * counts: the scheduler reads it there (vLLM 0.32.0, `v1/core/sched/scheduler.py`), and a child's is never looked at.
 */
export function onFailure(policy: "fail" | "recompute", connector: Connector): Connector {
  const { kv_connector, kv_role, ...rest } = connector;
  return { kv_connector, kv_role, kv_load_failure_policy: policy, ...rest };
}

/**
 * LMCache inside the engine, or the client of an LMCache server.
 *
 * @param kvRole - `kv_consumer` reads and never stores
 */
export function lmcache(launch: VllmLaunch, kvRole: KvRole = "kv_both"): Connector {
  const { mode, host } = launch.input.options.lmcache;
  if (mode === "in_process") return { kv_connector: "LMCacheConnectorV1", kv_role: kvRole };
  return {
    kv_connector: "LMCacheMPConnector",
    kv_role: kvRole,
    // Both always rendered: the default port differs between releases (5555, 9006).
    kv_connector_extra_config: { "lmcache.mp.host": `tcp://${dialHost(host)}`, "lmcache.mp.port": lmcachePort(launch) },
  };
}

/** KVBM's connector. As a child it needs the module path of its own, or vLLM does not find the class. */
export function dynamo(): Connector {
  return { kv_connector: "DynamoConnector", kv_role: "kv_both", kv_connector_module_path: KVBM_MODULE };
}

/**
 * vLLM's own wrapper. Loads from the first child that has the prompt, saves to all; NIXL first, so that what a prefill
 * engine made is pulled before the cache is asked. Children inherit the engine id: one of their own is a TypeError.
 */
export function multi(kvRole: KvRole, connectors: readonly Connector[]): Connector {
  return { kv_connector: "MultiConnector", kv_role: kvRole, kv_connector_extra_config: { connectors } };
}

/** The wrapper in the kvbm package: exactly two children, the cache first; loads through the first only, so prefill only. */
export function pd(cache: Connector, transfer: Connector): Connector {
  return {
    kv_connector: "PdConnector",
    kv_role: "kv_both",
    kv_connector_module_path: KVBM_MODULE,
    kv_connector_extra_config: { connectors: [cache, transfer] },
  };
}
