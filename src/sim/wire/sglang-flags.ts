import { type FlagTable, fail, type ParsedArgs } from "./argparse.ts";
import { SIM_FLAGS } from "./sim-flags.ts";

/** Stands in front of messages, as in SGLang's own. */
export const SGLANG_PROGRAM = "sglang serve";

const words = (text: string): string[] => text.split(" ");

const STORES = words("file sim mooncake npu_memcache hf3fs nixl aibrix dynamic eic simm mori shm tensorcast seaweedfs");
const ATTENTION = words(
  "triton torch_native flex_attention dsa nsa qsa dsv4 compressed fa3 fa4 flashinfer llada2_cfg_flashinfer flashmla trtllm_mla " +
    "cutedsl_mla tokenspeed_mla trtllm_mha hpc_ops minicpm_flashattn minicpm_flashinfer aiter wave intel_amx ascend intel_xpu",
);

const MODES = ["null", "prefill", "decode"];

/** Flags of SGLang 0.5.23 that deployments use; what is not here is refused, as what SGLang does not know. */
export const SGLANG_FLAGS: FlagTable = {
  "model-path": "text",
  model: "text",
  "tokenizer-path": "text",
  "tokenizer-mode": "text",
  "served-model-name": "text",
  host: "text",
  port: "int",
  "api-key": "text",
  "tp-size": "int",
  "tensor-parallel-size": "int",
  tp: "int",
  "dp-size": "int",
  "data-parallel-size": "int",
  dp: "int",
  "pp-size": "int",
  "ep-size": "int",
  "context-length": "text",
  "mem-fraction-static": "float",
  "page-size": "int",
  "max-total-tokens": "int",
  "max-running-requests": "int",
  "chunked-prefill-size": "int",
  "max-prefill-tokens": "int",
  "enable-metrics": "bare",
  "enable-cache-report": "bare",
  "kv-events-config": "json",
  "disable-radix-cache": "bare",
  "enable-hierarchical-cache": "bare",
  "hicache-ratio": "float",
  "hicache-size": "int",
  "hicache-write-policy": { choices: ["write_back", "write_through", "write_through_selective"] },
  "hicache-io-backend": "text",
  "hicache-mem-layout": {
    choices: ["layer_first", "page_first", "page_first_direct", "page_first_kv_split", "page_head"],
  },
  "hicache-host-memory-mode": "text",
  "hicache-storage-backend": { choices: STORES },
  "hicache-storage-prefetch-policy": { choices: ["best_effort", "wait_complete", "timeout"] },
  "hicache-storage-backend-extra-config": "text",
  "enable-lmcache": "bare",
  "disaggregation-mode": { choices: MODES },
  "disaggregation-transfer-backend": { choices: ["mooncake", "nixl", "ascend", "fake", "mori", "mooncake_tcp"] },
  "disaggregation-bootstrap-port": "int",
  "disaggregation-ib-device": "text",
  "disaggregation-decode-enable-offload-kvcache": "bare",
  "disaggregation-decode-enable-radix-cache": "bare",
  "disaggregation-decode-retraction-backup": "text",
  dtype: "text",
  quantization: "text",
  device: "text",
  "kv-cache-dtype": "text",
  "attention-backend": { choices: ATTENTION },
  "grammar-backend": "text",
  "sampling-backend": "text",
  "schedule-policy": "text",
  "trust-remote-code": "bare",
  "disable-overlap-schedule": "bare",
  "disable-cuda-graph": "bare",
  "skip-server-warmup": "bare",
  "chat-template": "text",
  "tool-call-parser": "text",
  "reasoning-parser": "text",
  "random-seed": "int",
  "base-gpu-id": "int",
  nnodes: "int",
  "node-rank": "int",
  "dist-init-addr": "text",
  "log-level": "text",
  "load-format": "text",
  "watchdog-timeout": "float",
  "enable-pd-role-switch": "bare",
  "stream-response-default-include-usage": "bare",
  "load-publish-endpoint": "text",
  "enable-unified-memory": "bare",
  "speculative-algorithm": "text",
  ...SIM_FLAGS,
};

/** A pair of flags that SGLang refuses before it starts: when it is wrong, and its words. */
interface Rule {
  readonly refused: (has: (name: string) => boolean, text: (name: string) => string | undefined) => boolean;
  readonly message: string;
}

const EXCLUSIVE = (a: string, b: string): string =>
  `The arguments ${a} and ${b} are mutually exclusive and cannot be used at the same time. Please use only one of them.`;

const RULES: readonly Rule[] = [
  {
    refused: (has) => has("enable-lmcache") && has("enable-hierarchical-cache"),
    message: "--enable-lmcache and --enable-hierarchical-cache are mutually exclusive",
  },
  {
    // A decode server has its radix cache off unless it is asked for.
    refused: (has, text) =>
      has("enable-hierarchical-cache") &&
      (has("disable-radix-cache") ||
        (text("disaggregation-mode") === "decode" && !has("disaggregation-decode-enable-radix-cache"))),
    message: EXCLUSIVE("enable-hierarchical-cache", "disable-radix-cache"),
  },
  {
    refused: (has) => has("disaggregation-decode-enable-offload-kvcache") && !has("hicache-storage-backend"),
    message:
      "The argument disaggregation-decode-enable-offload-kvcache is only supported when hicache-storage-backend is provided.",
  },
  {
    refused: (has, text) =>
      has("disaggregation-decode-enable-offload-kvcache") && text("disaggregation-mode") !== "decode",
    message: "The argument disaggregation-decode-enable-offload-kvcache is only supported for decode side.",
  },
  {
    refused: (has, text) => text("hicache-host-memory-mode") === "buffer_only" && !has("hicache-storage-backend"),
    message:
      "--hicache-host-memory-mode buffer_only requires a storage backend (--hicache-storage-backend): host memory is only a staging buffer and all cached data lives in storage.",
  },
  {
    refused: (_has, text) =>
      text("disaggregation-mode") === "prefill" && text("disaggregation-transfer-backend") === "fake",
    message: "Prefill server does not support 'fake' as the transfer backend",
  },
  {
    refused: (has, text) =>
      has("disaggregation-decode-enable-radix-cache") && text("disaggregation-transfer-backend") === "fake",
    message: "--disaggregation-decode-enable-radix-cache is incompatible with --disaggregation-transfer-backend fake",
  },
  {
    refused: (has) => has("disaggregation-decode-enable-radix-cache") && has("speculative-algorithm"),
    message: "--disaggregation-decode-enable-radix-cache is incompatible with speculative decoding",
  },
  {
    refused: (_has, text) => text("served-model-name")?.includes(":") === true,
    message: "served_model_name cannot contain a colon (':') character.",
  },
  {
    refused: (_has, text) => Number(text("chunked-prefill-size") ?? 8192) % Number(text("page-size") ?? 1) > 0,
    message: "chunked_prefill_size must be divisible by page_size",
  },
];

/** Refuse what SGLang's own resolver refuses, in its words (0.5.23). @throws CgnError BAD_INVOCATION */
export function checkSglang(args: ParsedArgs): void {
  const has = (name: string): boolean => args.values.has(name);
  const text = (name: string): string | undefined => args.values.get(name)?.[0];
  for (const rule of RULES) if (rule.refused(has, text)) fail(SGLANG_PROGRAM, rule.message);
}
