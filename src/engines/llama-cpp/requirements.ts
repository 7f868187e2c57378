import type { HostNeeds } from "../../core/host-needs.ts";
import type { LaunchPlan } from "../../core/launch-plan.ts";
import { modelNeed, plainNeeds } from "../engine-needs.ts";
import { packageNeed } from "../python-packages.ts";
import { type LlamaCppInput, modeOfInput } from "./llama-cpp-launch.ts";
import { LLAMA_CPP_PYTHON_VERSIONS, XLLAMACPP_VERSIONS } from "./versions.ts";

const INSTALL = {
  binary: "build or download llama-server from llama.cpp's releases, or set mode",
  python_server: 'pip install "llama-cpp-python[server]"',
  xllamacpp: "pip install xllamacpp",
} as const;

/** What a llama.cpp launch needs of its host. Weights are mapped from the file, so memory that is short makes it slow, not fail. */
export function llamaCppNeeds(input: LlamaCppInput, plan: LaunchPlan): HostNeeds {
  const mode = modeOfInput(input);
  const base = plainNeeds(plan, "llama_cpp", INSTALL[mode]);
  const own =
    mode === "python_server"
      ? packageNeed("llama-cpp-python", `mode "${mode}"`, LLAMA_CPP_PYTHON_VERSIONS.range)
      : mode === "xllamacpp"
        ? packageNeed("xllamacpp", `mode "${mode}"`, XLLAMACPP_VERSIONS.range)
        : undefined;
  const { platform } = input.slot;
  const takesGpu = input.options.n_gpu_layers !== 0 && platform !== "cpu" && platform !== "metal";
  return { ...base, ...(own === undefined ? {} : { own }), takesGpu, model: modelNeed(input.model, "gguf") };
}
