import { HOLD_MS } from "../model/engine-model.ts";
import { offloadTiers } from "../model/offload-tiers.ts";
import { type FlagTable, fail, type ParsedArgs, parseArgs } from "./argparse.ts";
import type { KvEndpoints } from "./kv-publisher.ts";
import { readVllmOffload } from "./offload-argv.ts";
import { parseJson, readSimFlags, SIM_FLAGS, settleSizes } from "./sim-flags.ts";
import { SIMULATED_VERSIONS, type SimOptions } from "./sim-options.ts";
import { readNixl, readTransfer, refuseKeys } from "./vllm-nixl-argv.ts";

const PROGRAM = "vllm serve";

const HASHES = ["sha256", "sha256_cbor", "xxhash", "xxhash_cbor"];

/** Flags of `vllm serve` 0.32.0 that deployments use; what is not here is refused, as what vLLM does not know. */
const FLAGS: FlagTable = {
  model: "text",
  host: "text",
  port: "int",
  uds: "text",
  "api-key": "many",
  "served-model-name": "many",
  "max-model-len": "text",
  "max-num-seqs": "int",
  "max-num-batched-tokens": "int",
  "block-size": "int",
  "num-gpu-blocks-override": "int",
  "enable-prefix-caching": "toggle",
  "prefix-caching-hash-algo": { choices: HASHES },
  "enable-prompt-tokens-details": "toggle",
  "shutdown-timeout": "int",
  "kv-events-config": "json",
  "kv-transfer-config": "json",
  "disable-hybrid-kv-cache-manager": "toggle",
  "kv-offloading-size": "float",
  "kv-offloading-backend": { choices: ["lmcache", "native"] },
  "kv-cache-dtype": "text",
  "kv-cache-memory-bytes": "text",
  "tensor-parallel-size": "int",
  tp: "int",
  "pipeline-parallel-size": "int",
  pp: "int",
  "data-parallel-size": "int",
  dp: "int",
  "data-parallel-rank": "int",
  "data-parallel-size-local": "int",
  "data-parallel-start-rank": "int",
  "data-parallel-address": "text",
  "data-parallel-rpc-port": "int",
  "data-parallel-backend": "text",
  "data-parallel-hybrid-lb": "toggle",
  "data-parallel-external-lb": "toggle",
  "enable-expert-parallel": "toggle",
  headless: "bare",
  dtype: "text",
  quantization: "text",
  "load-format": "text",
  seed: "int",
  tokenizer: "text",
  "tokenizer-mode": "text",
  "trust-remote-code": "toggle",
  revision: "text",
  "chat-template": "text",
  "gpu-memory-utilization": "float",
  "cpu-offload-gb": "float",
  "enforce-eager": "toggle",
  "enable-sleep-mode": "toggle",
  "enable-chunked-prefill": "toggle",
  "enable-log-requests": "toggle",
  "enable-scale-out": "toggle",
  "enable-request-id-headers": "toggle",
  "enable-force-include-usage": "toggle",
  "enable-auto-tool-choice": "toggle",
  "tool-call-parser": "text",
  "reasoning-parser": "text",
  "generation-config": "text",
  "override-generation-config": "json",
  "hf-overrides": "json",
  "compilation-config": "json",
  "speculative-config": "json",
  "enable-lora": "toggle",
  "lora-modules": "many",
  "max-loras": "int",
  "max-lora-rank": "int",
  "limit-mm-per-prompt": "json",
  "disable-uvicorn-access-log": "toggle",
  "uvicorn-log-level": "text",
  "root-path": "text",
  "ssl-keyfile": "text",
  "ssl-certfile": "text",
  "max-num-queued-reqs": "int",
  "max-num-queued-tokens": "int",
  "scheduling-policy": "text",
  "distributed-executor-backend": "text",
  ...SIM_FLAGS,
};

const EVENT_KEYS = [
  "enable_kv_cache_events",
  "publisher",
  "endpoint",
  "replay_endpoint",
  "buffer_steps",
  "hwm",
  "max_queue_size",
  "topic",
];

/**
 * Read a `vllm serve MODEL …` command line (without the program) as vLLM 0.32.0 does. What the simulator does not model
 * (parallelism) is accepted and ignored; what vLLM's own parser refuses is refused.
 * @param argv begins with `serve`
 * @throws CgnError BAD_INVOCATION (exit 2) in argparse's words
 */
export function readVllmArgv(argv: readonly string[], env: Readonly<Record<string, string | undefined>>): SimOptions {
  if (argv[0] !== "serve") fail("vllm", `argument subparser: invalid choice: '${argv[0] ?? ""}' (choose from 'serve')`);
  const args = parseArgs(PROGRAM, argv.slice(1), FLAGS);
  const text = (name: string): string | undefined => args.values.get(name)?.[0];
  const int = (name: string, fallback: number): number => Number(text(name) ?? fallback);
  if (args.positionals.length > 1) fail(PROGRAM, `unrecognized arguments: ${args.positionals.slice(1).join(" ")}`);
  const modelPath = args.positionals[0] ?? text("model") ?? "facebook/opt-125m";
  const transfer = readTransfer(args);
  const nixl = readNixl(transfer, env);
  const sim = readSimFlags(PROGRAM, args);
  const blockTokens = int("block-size", 16);
  const sizes = settleSizes(PROGRAM, {
    // vLLM keeps one block of those it is given as its null block.
    blocks:
      sim.blocks ??
      (text("num-gpu-blocks-override") ? int("num-gpu-blocks-override", 0) - 1 : Math.ceil(131_072 / blockTokens)),
    blockTokens,
    maxModelTokens: readLength(text("max-model-len")),
  });
  const prefixCaching = text("enable-prefix-caching") !== "false";
  const offload = readVllmOffload(PROGRAM, args, env, transfer);
  const tiers = offload === undefined ? [] : offloadTiers(offload, sim.profile, blockTokens, sim.speed);
  const events = readEvents(args);
  const shape = sim.shape;
  const hashes = sim.hashes ?? (env["VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES"] === "0" ? "bytes" : "int");
  const hashSeed = env["PYTHONHASHSEED"];
  return {
    kind: "vllm",
    version: SIMULATED_VERSIONS.vllm,
    host: text("host") ?? "127.0.0.1",
    port: int("port", 8000),
    models: namesOf(args, modelPath),
    modelPath,
    maxModelTokens: sizes.maxModelTokens,
    limits: {
      blocks: sizes.blocks,
      blockTokens,
      maxBatchedTokens: int("max-num-batched-tokens", 8192),
      maxSequences: int("max-num-seqs", 256),
      prefixCaching,
      generatedBlocks: "as-filled",
      publishesWhenIdle: false,
      ...(tiers.length === 0 ? {} : { tiers }),
      holdMs: HOLD_MS / sim.speed,
    },
    profile: sim.profile,
    speed: sim.speed,
    loadMs: sim.loadMs,
    seed: sim.seed,
    ranks: Math.max(1, int("data-parallel-size", Number(text("dp") ?? 1))),
    reportsCachedTokens: text("enable-prompt-tokens-details") === "true",
    metrics: true,
    ...(events === undefined
      ? {}
      : { events: { ...events, encoding: { dialect: "vllm", shape, hashes, blockTokens } } }),
    ...(hashSeed === undefined || hashSeed === "random" ? {} : { hashSeed }),
    hashAlgorithm: text("prefix-caching-hash-algo") ?? "sha256",
    shutdownTimeoutS: int("shutdown-timeout", 0),
    apiKeys: args.values.get("api-key") ?? (env["VLLM_API_KEY"] ? [env["VLLM_API_KEY"]] : []),
    devMode: env["VLLM_SERVER_DEV_MODE"] === "1",
    sleepMode: text("enable-sleep-mode") === "true",
    ...(nixl === undefined ? {} : { nixl }),
    ...(args.values.get("lora-modules") === undefined ? {} : { loras: loraNames(args.values.get("lora-modules")!) }),
    ...(sim.orphans === 0 ? {} : { orphans: sim.orphans }),
    faults: sim.faults,
  };
}

/** `--max-model-len` takes `8k` (8000) and `8K` (8192) too; `auto` and -1 mean the model's own. */
function readLength(text: string | undefined): number | undefined {
  if (text === undefined || text === "auto" || text === "-1") return undefined;
  const match = /^(\d+(?:\.\d+)?)([kKmMgG]?)$/.exec(text);
  if (match === null) fail(PROGRAM, `argument --max-model-len: invalid human_readable_int_or_auto value: '${text}'`);
  const unit: Readonly<Record<string, number>> = { k: 1e3, m: 1e6, g: 1e9, K: 1024, M: 1024 ** 2, G: 1024 ** 3 };
  return Math.floor(Number(match[1]) * (unit[match[2] ?? ""] ?? 1));
}

function namesOf(args: ParsedArgs, modelPath: string): readonly [string, ...string[]] {
  const [first, ...rest] = args.values.get("served-model-name") ?? [];
  return first === undefined ? [modelPath] : [first, ...rest];
}

function readEvents(args: ParsedArgs): KvEndpoints | undefined {
  const text = args.values.get("kv-events-config")?.[0];
  if (text === undefined) return undefined;
  const config = parseJson(PROGRAM, "kv-events-config", text);
  refuseKeys("kv-events-config", "KVEventsConfig", config, EVENT_KEYS);
  if (config["enable_kv_cache_events"] !== true && config["enable_kv_cache_events"] !== "true") return undefined;
  if (config["publisher"] === "null" || args.values.get("enable-prefix-caching")?.[0] === "false") return undefined;
  const string = (key: string): string | undefined => (typeof config[key] === "string" ? config[key] : undefined);
  const replay = string("replay_endpoint");
  return {
    endpoint: string("endpoint") ?? "tcp://*:5557",
    ...(replay === undefined ? {} : { replay }),
    topic: string("topic") ?? "",
    bufferSteps: typeof config["buffer_steps"] === "number" ? config["buffer_steps"] : 10_000,
  };
}

/** `NAME=PATH`, or a JSON object with a name. */
function loraNames(modules: readonly string[]): readonly string[] {
  return modules.map((module) =>
    module.startsWith("{") ? String(parseJson(PROGRAM, "lora-modules", module)["name"]) : module.split("=")[0]!,
  );
}
