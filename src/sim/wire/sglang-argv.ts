import { DEFAULT_KV_BYTES, offloadTiers } from "../model/offload-tiers.ts";
import { fail, type ParsedArgs, parseArgs } from "./argparse.ts";
import type { KvEndpoints } from "./kv-publisher.ts";
import { readSglangOffload } from "./offload-argv.ts";
import { checkSglang, SGLANG_FLAGS, SGLANG_PROGRAM } from "./sglang-flags.ts";
import { parseJson, readSimFlags, settleSizes } from "./sim-flags.ts";
import { SIMULATED_VERSIONS, type SimOptions } from "./sim-options.ts";

const PROGRAM = SGLANG_PROGRAM;

/**
 * Read SGLang's command line as 0.5.23 does: `-m sglang.launch_server --model-path …` (as `python` gets it), `serve …`, or
 * the flags alone.
 * @throws CgnError BAD_INVOCATION (exit 2) in argparse's words
 */
export function readSglangArgv(argv: readonly string[], env: Readonly<Record<string, string | undefined>>): SimOptions {
  const args = parseArgs(PROGRAM, withoutModule(argv), SGLANG_FLAGS);
  const text = (name: string): string | undefined => args.values.get(name)?.[0];
  const int = (name: string, fallback: number): number => Number(text(name) ?? fallback);
  if (args.positionals.length > 0) fail(PROGRAM, `unrecognized arguments: ${args.positionals.join(" ")}`);
  const modelPath = text("model-path") ?? text("model");
  if (modelPath === undefined) fail(PROGRAM, "the following arguments are required: --model-path/--model");
  const name = text("served-model-name") ?? modelPath;
  checkSglang(args);
  const sim = readSimFlags(PROGRAM, args);
  const blockTokens = int("page-size", 1);
  const sizes = settleSizes(PROGRAM, {
    blocks: sim.blocks ?? Math.floor(int("max-total-tokens", 131_072) / Math.max(1, blockTokens)),
    blockTokens,
    maxModelTokens: readLength(text("context-length")),
  });
  const deviceBytes = sizes.blocks * blockTokens * (sim.profile.kvBytesPerToken ?? DEFAULT_KV_BYTES);
  const offload = readSglangOffload(PROGRAM, args, deviceBytes);
  const tiers = offload === undefined ? [] : offloadTiers(offload, sim.profile, blockTokens, sim.speed);
  const events = readEvents(args);
  const mode = text("disaggregation-mode");
  const prefixCaching = text("disable-radix-cache") === undefined;
  return {
    kind: "sglang",
    version: SIMULATED_VERSIONS.sglang,
    host: text("host") ?? "127.0.0.1",
    port: int("port", 30_000),
    models: [name],
    modelPath,
    maxModelTokens: sizes.maxModelTokens,
    limits: {
      blocks: sizes.blocks,
      blockTokens,
      maxBatchedTokens: int("chunked-prefill-size", 8192),
      maxSequences: int("max-running-requests", 256),
      prefixCaching,
      generatedBlocks: "at-finish",
      publishesWhenIdle: true,
      ...(tiers.length === 0 ? {} : { tiers }),
    },
    profile: sim.profile,
    speed: sim.speed,
    loadMs: sim.loadMs,
    seed: sim.seed,
    ranks: Math.max(1, int("dp-size", int("data-parallel-size", 1))),
    reportsCachedTokens: text("enable-cache-report") !== undefined,
    metrics: text("enable-metrics") !== undefined,
    ...(events === undefined || !prefixCaching
      ? {}
      : { events: { ...events, encoding: { dialect: "sglang", shape: sim.shape, hashes: "int", blockTokens } } }),
    hashAlgorithm: "sha256",
    shutdownTimeoutS: Number.POSITIVE_INFINITY,
    apiKeys: text("api-key") === undefined ? [] : [text("api-key")!],
    devMode: env["VLLM_SERVER_DEV_MODE"] === "1",
    ...(mode === "prefill" || mode === "decode"
      ? { bootstrap: { mode, port: int("disaggregation-bootstrap-port", 8998) } }
      : {}),
    ...(text("grammar-backend") === "none" ? { grammar: false } : {}),
    ...(sim.orphans === 0 ? {} : { orphans: sim.orphans }),
    faults: sim.faults,
  };
}

function withoutModule(argv: readonly string[]): readonly string[] {
  if (argv[0] === "-m" && (argv[1] === "sglang.launch_server" || argv[1] === "sglang"))
    return withoutModule(argv.slice(2));
  return argv[0] === "serve" ? argv.slice(1) : argv;
}

/** SGLang's `8k` is 8000. */
function readLength(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const match = /^(\d+)([kKmM]?)$/.exec(text);
  if (match === null) fail(PROGRAM, `argument --context-length: invalid value: '${text}'`);
  return Number(match[1]) * ({ "": 1, k: 1e3, m: 1e6 }[(match[2] ?? "").toLowerCase()] ?? 1);
}

function readEvents(args: ParsedArgs): KvEndpoints | undefined {
  const text = args.values.get("kv-events-config")?.[0];
  if (text === undefined) return undefined;
  const config = parseJson(PROGRAM, "kv-events-config", text);
  const { publisher, format, hwm } = config;
  if (publisher === undefined || publisher === "null") return undefined;
  if (publisher !== "zmq") fail(PROGRAM, `Unknown event publisher '${publisher}'`);
  if (format !== undefined && format !== "default") fail(PROGRAM, `events in format '${format}' are not simulated`);
  if (hwm !== undefined && !Number.isInteger(Number(hwm)))
    fail(PROGRAM, "kv-events-config: hwm should be a valid integer");
  const string = (key: string): string | undefined => (typeof config[key] === "string" ? config[key] : undefined);
  const replay = string("replay_endpoint");
  // A wildcard address binds here too (0.5.23).
  const bind = config["bind"] ?? (string("endpoint")?.includes("0.0.0.0") ? true : undefined);
  return {
    endpoint: string("endpoint") ?? "tcp://*:5557",
    ...(replay === undefined ? {} : { replay }),
    topic: string("topic") ?? "",
    bufferSteps: typeof config["buffer_steps"] === "number" ? config["buffer_steps"] : 10_000,
    ...(typeof bind === "boolean" ? { bind } : {}),
  };
}
