import { ENGINE_KINDS, type EngineKind } from "../core/engine-kind.ts";
import { CgnError } from "../core/errors.ts";
import type { Engine } from "./engine.ts";
import { llamaCpp } from "./llama-cpp/llama-cpp.ts";
import { mlx } from "./mlx/mlx.ts";
import { openaiCompat } from "./openai-compat/openai-compat.ts";
import { sglang } from "./sglang/sglang.ts";
import { vllm } from "./vllm/vllm.ts";

/** Every engine that cgn knows: the only list of them. Adding one = its folder and one line here. */
export const ENGINES: readonly Engine[] = [vllm, sglang, llamaCpp, mlx, openaiCompat];

/**
 * The engine of a kind.
 * @throws CgnError BUG when the kind has no engine: the test of this file keeps the two lists equal.
 */
export function findEngine(kind: EngineKind): Engine {
  const engine = ENGINES.find((e) => e.kind === kind);
  if (engine !== undefined) return engine;
  throw new CgnError(
    "BUG",
    `Cannot find engine "${kind}": it is not registered. Kinds: ${ENGINE_KINDS.join(", ")}`,
    {},
  );
}
