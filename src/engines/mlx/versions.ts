import type { EngineVersions } from "../engine-versions.ts";

/** mlx-lm (`python -m mlx_lm server --help`); `python -m mlx_lm.server`, which older ones want, is deprecated. */
export const MLX_VERSIONS: EngineVersions = {
  range: ">=0.32.0",
  newest: "0.32.2",
  changes: [],
};
