/** Every engine kind that a config may name, as spelled in `[engine].kind`. The registry of engines has one object for each. */
export const ENGINE_KINDS = ["vllm", "sglang", "llama_cpp", "mlx", "openai_compat"] as const;

export type EngineKind = (typeof ENGINE_KINDS)[number];

/** What part of a request an engine computes. `both` serves whole requests. */
export const ROLES = ["both", "prefill", "decode"] as const;

export type Role = (typeof ROLES)[number];

export const DEFAULT_ROLE: Role = "both";
