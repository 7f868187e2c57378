import type { EngineVersions } from "../engine-versions.ts";

/** llama-cpp-python 0.3.36 (`python -m llama_cpp.server --help`). */
export const LLAMA_CPP_PYTHON_VERSIONS: EngineVersions = {
  range: ">=0.3.0",
  newest: "0.3.36",
  changes: [],
};

/** The wheel that embeds llama-server (its attributes of October 2026). */
export const XLLAMACPP_VERSIONS: EngineVersions = {
  range: ">=2026.1",
  newest: "2026.10.11549",
  changes: [],
};
