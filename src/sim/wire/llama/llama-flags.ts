/** How a flag takes its value. */
export type LlamaFlagKind = "bare" | "int" | "text" | "pair";

export interface LlamaFlag {
  /** Its longest positive name, without dashes: what it is known by. */
  readonly name: string;
  readonly kind: LlamaFlagKind;
  /** Every way to write it, dashes included. Of a switch those that turn it off are in `off`. */
  readonly names: readonly string[];
  readonly off: readonly string[];
  /** The environment variable that stands in for it. */
  readonly env: string | undefined;
}

// From `llama-server --help` (llama.cpp of October 2026): names, and the environment variable.

/** Flags without a value. */
const SWITCHES = `
-h/--help/--usage
--version
-cl/--cache-list
--completion-bash
--swa-full LLAMA_ARG_SWA_FULL
--perf/--no-perf LLAMA_ARG_PERF
-e/--escape/--no-escape
-kvo/--kv-offload/-nkvo/--no-kv-offload LLAMA_ARG_KV_OFFLOAD
--repack/-nr/--no-repack LLAMA_ARG_REPACK
--no-host LLAMA_ARG_NO_HOST
--list-devices
-cmoe/--cpu-moe LLAMA_ARG_CPU_MOE
--check-tensors
--op-offload/--no-op-offload
--log-disable
--log-jsonl/--no-log-jsonl LLAMA_ARG_LOG_JSONL
-v/--verbose/--log-verbose
--offline LLAMA_ARG_OFFLINE
--log-prefix/--no-log-prefix LLAMA_ARG_LOG_PREFIX
--log-timestamps/--no-log-timestamps LLAMA_ARG_LOG_TIMESTAMPS
--ignore-eos
-bs/--backend-sampling LLAMA_ARG_BACKEND_SAMPLING
--spec-draft-cpu-moe/-cmoed/--cpu-moe-draft LLAMA_ARG_SPEC_DRAFT_CPU_MOE
--spec-draft-backend-sampling/--no-spec-draft-backend-sampling LLAMA_ARG_SPEC_DRAFT_BACKEND_SAMPLING
-kvu/--kv-unified/-no-kvu/--no-kv-unified LLAMA_ARG_KV_UNIFIED
--cache-idle-slots/--no-cache-idle-slots LLAMA_ARG_CACHE_IDLE_SLOTS
--context-shift/--no-context-shift LLAMA_ARG_CONTEXT_SHIFT
-sp/--special
--warmup/--no-warmup
--spm-infill
-cb/--cont-batching/-nocb/--no-cont-batching LLAMA_ARG_CONT_BATCHING
--mmproj-auto/--no-mmproj/--no-mmproj-auto LLAMA_ARG_MMPROJ_AUTO
--mmproj-offload/--no-mmproj-offload LLAMA_ARG_MMPROJ_OFFLOAD
--reuse-port LLAMA_ARG_REUSE_PORT
--cors-credentials/--no-cors-credentials LLAMA_ARG_CORS_CREDENTIALS
--ui-mcp-proxy/--webui-mcp-proxy/--no-ui-mcp-proxy/--no-webui-mcp-proxy LLAMA_ARG_UI_MCP_PROXY
-ag/--agent/-no-ag/--no-agent LLAMA_ARG_AGENT
--ui/--webui/--no-ui/--no-webui LLAMA_ARG_UI
--embedding/--embeddings LLAMA_ARG_EMBEDDINGS
--rerank/--reranking LLAMA_ARG_RERANKING
--cache-prompt/--no-cache-prompt LLAMA_ARG_CACHE_PROMPT
--metrics LLAMA_ARG_ENDPOINT_METRICS
--props LLAMA_ARG_ENDPOINT_PROPS
--slots/--no-slots LLAMA_ARG_ENDPOINT_SLOTS
--models-autoload/--no-models-autoload LLAMA_ARG_MODELS_AUTOLOAD
--jinja/--no-jinja LLAMA_ARG_JINJA
--reasoning-preserve/--no-reasoning-preserve LLAMA_ARG_REASONING_PRESERVE
--skip-chat-parsing/--no-skip-chat-parsing LLAMA_ARG_SKIP_CHAT_PARSING
--prefill-assistant/--no-prefill-assistant LLAMA_ARG_PREFILL_ASSISTANT
--lora-init-without-apply
--embd-gemma-default
--fim-qwen-1.5b-default
--fim-qwen-3b-default
--fim-qwen-7b-default
--fim-qwen-7b-spec
--fim-qwen-14b-spec
--fim-qwen-30b-default
--gpt-oss-20b-default
--gpt-oss-120b-default
--vision-gemma-4b-default
--vision-gemma-12b-default
--spec-default
`;

/** Flags whose value is read as an integer. */
const INTEGERS = `
-t/--threads LLAMA_ARG_THREADS
-tb/--threads-batch
-c/--ctx-size LLAMA_ARG_CTX_SIZE
-n/--predict/--n-predict LLAMA_ARG_N_PREDICT
-b/--batch-size LLAMA_ARG_BATCH
-ub/--ubatch-size LLAMA_ARG_UBATCH
--keep
-lv/--verbosity/--log-verbosity LLAMA_ARG_LOG_VERBOSITY
-s/--seed
--kv-unified-per-slot LLAMA_ARG_KV_UNIFIED_PER_SLOT
-ctxcp/--ctx-checkpoints/--swa-checkpoints LLAMA_ARG_CTX_CHECKPOINTS
-cram/--cache-ram LLAMA_ARG_CACHE_RAM
-np/--parallel LLAMA_ARG_N_PARALLEL
--port LLAMA_ARG_PORT
-to/--timeout LLAMA_ARG_TIMEOUT
--sse-ping-interval LLAMA_ARG_SSE_PING_INTERVAL
--threads-http LLAMA_ARG_THREADS_HTTP
--cache-reuse LLAMA_ARG_CACHE_REUSE
`;

/** Flags with any other value; `*2` with two. */
const VALUES = `
-C/--cpu-mask
-Cr/--cpu-range
--cpu-strict
--prio
--poll
-Cb/--cpu-mask-batch
-Crb/--cpu-range-batch
--cpu-strict-batch
--prio-batch
--poll-batch
-fa/--flash-attn LLAMA_ARG_FLASH_ATTN
--rope-scaling LLAMA_ARG_ROPE_SCALING_TYPE
--rope-scale LLAMA_ARG_ROPE_SCALE
--rope-freq-base LLAMA_ARG_ROPE_FREQ_BASE
--rope-freq-scale LLAMA_ARG_ROPE_FREQ_SCALE
--yarn-orig-ctx LLAMA_ARG_YARN_ORIG_CTX
--yarn-ext-factor LLAMA_ARG_YARN_EXT_FACTOR
--yarn-attn-factor LLAMA_ARG_YARN_ATTN_FACTOR
--yarn-beta-slow LLAMA_ARG_YARN_BETA_SLOW
--yarn-beta-fast LLAMA_ARG_YARN_BETA_FAST
-ctk/--cache-type-k LLAMA_ARG_CACHE_TYPE_K
-ctv/--cache-type-v LLAMA_ARG_CACHE_TYPE_V
-dt/--defrag-thold LLAMA_ARG_DEFRAG_THOLD
--rpc LLAMA_ARG_RPC
-lm/--load-mode LLAMA_ARG_LOAD_MODE
-lzm/--lazy-mode LLAMA_ARG_LAZY_MODE
--numa LLAMA_ARG_NUMA
-dev/--device LLAMA_ARG_DEVICE
-ot/--override-tensor LLAMA_ARG_OVERRIDE_TENSOR
-ncmoe/--n-cpu-moe LLAMA_ARG_N_CPU_MOE
-ncffn/--n-cpu-ffn LLAMA_ARG_N_CPU_FFN
-ngl/--gpu-layers/--n-gpu-layers LLAMA_ARG_N_GPU_LAYERS
-sm/--split-mode LLAMA_ARG_SPLIT_MODE
-ts/--tensor-split LLAMA_ARG_TENSOR_SPLIT
-mg/--main-gpu LLAMA_ARG_MAIN_GPU
-fit/--fit LLAMA_ARG_FIT
-fitt/--fit-target LLAMA_ARG_FIT_TARGET
-fitc/--fit-ctx LLAMA_ARG_FIT_CTX
--override-kv
--lora
--lora-scaled
--control-vector
--control-vector-scaled
--control-vector-layer-range *2
-m/--model LLAMA_ARG_MODEL
-mu/--model-url LLAMA_ARG_MODEL_URL
-dr/--docker-repo LLAMA_ARG_DOCKER_REPO
-hf/-hfr/--hf-repo LLAMA_ARG_HF_REPO
-hff/--hf-file LLAMA_ARG_HF_FILE
-hft/--hf-token HF_TOKEN
--log-file LLAMA_ARG_LOG_FILE
--log-colors LLAMA_ARG_LOG_COLORS
--spec-draft-type-k/-ctkd/--cache-type-k-draft LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_K
--spec-draft-type-v/-ctvd/--cache-type-v-draft LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_V
--samplers
--sampler-seq/--sampling-seq
--temp/--temperature LLAMA_ARG_TEMPERATURE
--top-k LLAMA_ARG_TOP_K
--top-p LLAMA_ARG_TOP_P
--min-p LLAMA_ARG_MIN_P
--top-nsigma/--top-n-sigma
--xtc-probability
--xtc-threshold
--typical/--typical-p
--repeat-last-n
--repeat-penalty LLAMA_ARG_REPEAT_PENALTY
--presence-penalty LLAMA_ARG_PRESENCE_PENALTY
--frequency-penalty LLAMA_ARG_FREQUENCY_PENALTY
--dry-multiplier
--dry-base
--dry-allowed-length
--dry-penalty-last-n
--dry-sequence-breaker
--adaptive-target
--adaptive-decay
--dynatemp-range
--dynatemp-exp
--mirostat
--mirostat-lr
--mirostat-ent
-l/--logit-bias
--grammar
--grammar-file
-j/--json-schema
-jf/--json-schema-file
--spec-draft-hf/-hfd/-hfrd/--hf-repo-draft LLAMA_ARG_SPEC_DRAFT_HF_REPO
--spec-draft-threads/-td/--threads-draft
--spec-draft-threads-batch/-tbd/--threads-batch-draft
--spec-draft-cpu-mask/-Cd/--cpu-mask-draft
--spec-draft-cpu-range/-Crd/--cpu-range-draft
--spec-draft-cpu-strict/--cpu-strict-draft
--spec-draft-prio/--prio-draft
--spec-draft-poll/--poll-draft
--spec-draft-cpu-mask-batch/-Cbd/--cpu-mask-batch-draft
--spec-draft-cpu-strict-batch/--cpu-strict-batch-draft
--spec-draft-prio-batch/--prio-batch-draft
--spec-draft-poll-batch/--poll-batch-draft
--spec-draft-override-tensor/-otd/--override-tensor-draft
--spec-draft-n-cpu-moe/--spec-draft-ncmoe/-ncmoed/--n-cpu-moe-draft LLAMA_ARG_SPEC_DRAFT_N_CPU_MOE
--spec-draft-n-max LLAMA_ARG_SPEC_DRAFT_N_MAX
--spec-draft-n-min LLAMA_ARG_SPEC_DRAFT_N_MIN
--spec-synth-len LLAMA_ARG_SPEC_SYNTH_LEN
--spec-synth-rates LLAMA_ARG_SPEC_SYNTH_RATES
--spec-draft-p-split/--draft-p-split LLAMA_ARG_SPEC_DRAFT_P_SPLIT
--spec-draft-p-min/--draft-p-min LLAMA_ARG_SPEC_DRAFT_P_MIN
--spec-draft-sampling LLAMA_ARG_SPEC_DRAFT_SAMPLING
--spec-draft-device/-devd/--device-draft
--spec-draft-ngl/-ngld/--gpu-layers-draft/--n-gpu-layers-draft LLAMA_ARG_N_GPU_LAYERS_DRAFT
--spec-draft-model/-md/--model-draft LLAMA_ARG_SPEC_DRAFT_MODEL
--spec-type LLAMA_ARG_SPEC_TYPE
--spec-ngram-mod-n-min
--spec-ngram-mod-n-max
--spec-ngram-mod-n-match
--spec-ngram-simple-size-n
--spec-ngram-simple-size-m
--spec-ngram-simple-min-hits
--spec-ngram-map-k-size-n
--spec-ngram-map-k-size-m
--spec-ngram-map-k-min-hits
--spec-ngram-map-k4v-size-n
--spec-ngram-map-k4v-size-m
--spec-ngram-map-k4v-min-hits
--draft/--draft-n/--draft-max LLAMA_ARG_DRAFT_MAX
--draft-min/--draft-n-min LLAMA_ARG_DRAFT_MIN
--spec-ngram-size-n
--spec-ngram-size-m
--spec-ngram-min-hits
-lcs/--lookup-cache-static
-lcd/--lookup-cache-dynamic
-cms/--checkpoint-min-step LLAMA_ARG_CHECKPOINT_MIN_SPACING_NT
-r/--reverse-prompt
--pooling LLAMA_ARG_POOLING
-mm/--mmproj LLAMA_ARG_MMPROJ
-mmu/--mmproj-url LLAMA_ARG_MMPROJ_URL
-mmdev/--mmproj-device MTMD_BACKEND_DEVICE
--image-min-tokens LLAMA_ARG_IMAGE_MIN_TOKENS
--image-max-tokens LLAMA_ARG_IMAGE_MAX_TOKENS
--mtmd-batch-max-tokens LLAMA_ARG_MTMD_BATCH_MAX_TOKENS
--video-fps LLAMA_ARG_VIDEO_FPS
--video-timestamp-interval LLAMA_ARG_VIDEO_TIMESTAMP_INTERVAL
--video-ffmpeg-dir LLAMA_ARG_VIDEO_FFMPEG_DIR
-a/--alias LLAMA_ARG_ALIAS
--tags LLAMA_ARG_TAGS
--embd-normalize
--host LLAMA_ARG_HOST
--path LLAMA_ARG_STATIC_PATH
--cors-origins LLAMA_ARG_CORS_ORIGINS
--cors-methods LLAMA_ARG_CORS_METHODS
--cors-headers LLAMA_ARG_CORS_HEADERS
--api-prefix LLAMA_ARG_API_PREFIX
--ui-config/--webui-config LLAMA_ARG_UI_CONFIG
--ui-config-file/--webui-config-file LLAMA_ARG_UI_CONFIG_FILE
--tools LLAMA_ARG_TOOLS
--tools-runtime LLAMA_ARG_TOOLS_RUNTIME
--mcp-servers-config LLAMA_ARG_MCP_SERVERS_CONFIG
--mcp-servers-json LLAMA_ARG_MCP_SERVERS_JSON
--api-key LLAMA_API_KEY
--api-key-file LLAMA_ARG_API_KEY_FILE
--ssl-key-file LLAMA_ARG_SSL_KEY_FILE
--ssl-cert-file LLAMA_ARG_SSL_CERT_FILE
--chat-template-kwargs LLAMA_ARG_CHAT_TEMPLATE_KWARGS
--slot-save-path
--media-path
--models-dir LLAMA_ARG_MODELS_DIR
--models-preset LLAMA_ARG_MODELS_PRESET
--models-max LLAMA_ARG_MODELS_MAX
--reasoning-format LLAMA_ARG_THINK
-rea/--reasoning LLAMA_ARG_REASONING
--reasoning-effort LLAMA_ARG_REASONING_EFFORT
--reasoning-budget LLAMA_ARG_THINK_BUDGET
--reasoning-budget-message LLAMA_ARG_THINK_BUDGET_MESSAGE
--chat-template LLAMA_ARG_CHAT_TEMPLATE
--chat-template-file LLAMA_ARG_CHAT_TEMPLATE_FILE
-sps/--slot-prompt-similarity
--sleep-idle-seconds
--log-prompts-dir
`;

function read(text: string, kind: LlamaFlagKind): LlamaFlag[] {
  const rows = text.trim().split("\n");
  return rows.map((row) => {
    const [written = "", env] = row.split(" ");
    const names = written.split("/");
    const off = kind === "bare" ? names.filter(turnsOff) : [];
    const long = names.filter((name) => name.startsWith("--") && !off.includes(name));
    const name = long.reduce((best, each) => (each.length > best.length ? each : best), long[0] ?? names[0]!);
    const variable = env?.startsWith("*") === true ? undefined : env;
    return { name: name.replace(/^-+/, ""), kind: row.endsWith("*2") ? "pair" : kind, names, off, env: variable };
  });
}

/** `--no-x` beside `--x`; `--no-host` has no other side. */
function turnsOff(name: string): boolean {
  return /^--no-|^-no|^-nkvo$|^-nr$/.test(name) && name !== "--no-host";
}

/** All flags of llama-server. */
export const LLAMA_FLAGS: readonly LlamaFlag[] = [
  ...read(SWITCHES, "bare"),
  ...read(INTEGERS, "int"),
  ...read(VALUES, "text"),
];
