import { join } from "node:path";
import { VLLM } from "../pins.ts";
import type { Places } from "../places.ts";

/** What vLLM needs on a small machine, set by the user's own environment. */
export const ENV = {
  VLLM_CPU_KVCACHE_SPACE: "1",
  UCX_TLS: "tcp,shm,self,sm",
  VLLM_NO_USAGE_STATS: "1",
  DO_NOT_TRACK: "1",
  HF_HUB_OFFLINE: "1",
  // Else NIXL's progress threads take a core each.
  PYTHONPATH: join(import.meta.dirname, "..", "python", "calm-nixl"),
};

/** An uncached prompt below so many tokens is computed where it is decoded: only the shortest of the requests. */
const COLOCATE_BELOW = 48;

/** Full precision: the same text whatever part of a prompt was computed where. */
function head(places: Places): string {
  return `[router.disagg]
colocate_below_tokens = ${COLOCATE_BELOW}
[models.smollm2]
path = ${JSON.stringify(places.model("smollm2"))}
dtype = "float32"
max_model_len = 2048
`;
}

function engineToml(places: Places, port: number, role: "prefill" | "decode" | "both"): string {
  return `[[engines]]
kind = "vllm"
model = "smollm2"
url = "http://127.0.0.1:${port}"
node_id = "${role}"
role = "${role}"
kv_offload = "${role === "both" ? "none" : "nixl"}"
[engines.env]
# vLLM's processes wait for each other in loops that yield: two engines on one core keep each other from running.
VLLM_CPU_OMP_THREADS_BIND = "${role === "decode" ? 1 : 0}"
[engines.vllm]
binary = ${JSON.stringify(join(places.pin(VLLM), "bin", "vllm"))}
extra_args = ["--enforce-eager", "--max-num-seqs", "8", "--enable-auto-tool-choice", "--tool-call-parser", "hermes"]
`;
}

/** One engine that does all. */
export const plainToml = (places: Places, port: number): string => head(places) + engineToml(places, port, "both");

/** One that computes prompts and one that answers, over NIXL. */
export const pairToml = (places: Places, prefill: number, decode: number): string =>
  head(places) + engineToml(places, prefill, "prefill") + engineToml(places, decode, "decode");
