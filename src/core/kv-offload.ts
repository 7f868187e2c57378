import { CgnError } from "./errors.ts";

/**
 * The dial: which KV connector or offload backend the agent gives an engine when it spawns it.
 *
 * `none` no engine-side connector (default) · `nixl` NIXL only, enough for prefill → decode hand-off · `lmcache` LMCache ·
 * `hicache` SGLang's hierarchical cache · `kvbm` NVIDIA Dynamo KVBM. The value is its own canonical lower-case name,
 * the same string as in TOML. The router does not know it.
 */
export const KV_OFFLOADS = ["none", "nixl", "lmcache", "hicache", "kvbm"] as const;

export type KvOffload = (typeof KV_OFFLOADS)[number];

export const DEFAULT_KV_OFFLOAD: KvOffload = "none";

/**
 * Read a canonical name.
 * @throws CgnError CONFIG_INVALID for any other string, upper case included: the canonical form is the only one.
 */
export function parseKvOffload(text: string): KvOffload {
  const found = KV_OFFLOADS.find((name) => name === text);
  if (found !== undefined) return found;
  const problem = `"${text}" is no KV offload`;
  const remedy = `Use one of ${KV_OFFLOADS.join(", ")}`;
  throw new CgnError("CONFIG_INVALID", `Cannot read kv_offload: ${problem}. ${remedy}`, {
    problems: [{ severity: "error", path: "engine.kv_offload", problem, remedy }],
  });
}

/** Write the canonical name: the inverse of `parseKvOffload()`. */
export function formatKvOffload(offload: KvOffload): string {
  return offload;
}
