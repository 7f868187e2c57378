import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { CgnError, isCgnError } from "../core/errors.ts";
import { KV_OFFLOADS } from "../core/kv-offload.ts";
import { readLlamaArgv } from "../sim/wire/llama/llama-argv.ts";
import { readSglangArgv } from "../sim/wire/sglang-argv.ts";
import type { SimDeps } from "../sim/wire/sim-engine.ts";
import { SIMULATED_VERSIONS, type SimKind, type SimOptions } from "../sim/wire/sim-options.ts";
import { type SimServer, startSim } from "../sim/wire/sim-server.ts";
import { readVllmArgv } from "../sim/wire/vllm-argv.ts";
import { zeroMqProblem } from "../wire/load-zeromq.ts";
import { ANY_PORT, type CliContext, type Command, MAX_SECONDS, PORT, type Values } from "./command.ts";

/** `cgn sim`: an engine that needs no GPU, no model and no Python. */
export const simCommand: Command = {
  name: "sim",
  about: "run a simulated vLLM, SGLang or llama-server: its HTTP surface, prefix cache and KV events, without a model",
  examples: [
    "cgn sim --kind vllm --port 8000 --model sim --events-port 5557",
    "cgn sim --kind sglang --port 30000 --blocks 2000 --profile instant",
    "cgn sim --kind llama_cpp -- -m model.gguf --port 8080 -c 8192 -np 4 --metrics",
    "cgn sim --kind vllm --blocks 1000 --kv-offload lmcache --host-gib 64",
    "cgn sim --kind vllm -- serve MODEL --port 8000 --block-size 16 --sim-profile cpu-small",
    `curl -X POST http://127.0.0.1:8000/sim/fault -d '{"kind":"slow","factor":10}'`,
  ],
  positionals: [
    {
      name: "argv",
      about: "the engine's own command line after --, as cgn render prints it; replaces the flags below",
      required: false,
      variadic: true,
    },
  ],
  options: {
    kind: { type: "string", choices: ["vllm", "sglang", "llama_cpp"], default: "vllm", about: "which engine to be" },
    host: { type: "string", value: "ADDRESS", default: "127.0.0.1", about: "address to listen on" },
    port: { ...ANY_PORT, about: "HTTP port (default 8000, SGLang 30000, llama.cpp 8080; 0: any free one)" },
    model: { type: "string", value: "NAME", default: "sim", about: "served model name" },
    "block-size": {
      type: "number",
      value: "TOKENS",
      default: 16,
      whole: true,
      min: 1,
      max: 65_536,
      about: "tokens a KV block (llama_cpp keeps single tokens and has none)",
    },
    blocks: {
      type: "number",
      value: "N",
      whole: true,
      min: 1,
      max: 100_000_000,
      about:
        "KV blocks (default: 131072 tokens' worth); llama_cpp: tokens of context, all slots together, in place of -c",
    },
    "kv-offload": {
      type: "string",
      choices: KV_OFFLOADS,
      default: "none",
      about: "what keeps blocks that fall off the device: vllm lmcache or kvbm, sglang hicache",
    },
    "host-gib": { type: "number", value: "GIB", min: 0, max: 1_000_000, about: "host memory for that" },
    "disk-gib": { type: "number", value: "GIB", min: 0, max: 1_000_000, about: "disk for that" },
    "events-port": { ...PORT, about: "publish KV events on this port" },
    "replay-port": { ...PORT, about: "replay KV events on this port (default: events port + 1)" },
    profile: {
      type: "string",
      value: "NAME|FILE",
      default: "default",
      about: "how fast it is: one of cgn sim profiles, or a file of cgn sim fit",
    },
    speed: { type: "number", value: "X", default: 1, min: 0.001, max: 1_000_000, about: "divides all durations" },
    "load-seconds": {
      type: "number",
      value: "S",
      default: 0,
      min: 0,
      max: MAX_SECONDS,
      about: "how long the model loads",
    },
    seed: {
      type: "number",
      value: "N",
      default: 0,
      whole: true,
      min: 0,
      max: 4_294_967_295,
      about: "of the answers' text",
    },
    fault: { type: "string[]", value: "KIND|JSON", about: "start with a fault, as POST /sim/fault takes it" },
  },
  async run({ options, positionals }, cli) {
    const kind = options["kind"] as SimKind;
    const own = positionals.length === 0;
    const argv = own ? engineArgv(kind, options) : positionals;
    const read = (argv: readonly string[]): SimOptions | string => {
      try {
        return READERS[kind](argv, cli.env);
      } catch (e) {
        // llama-server ends with 1, and says no more than this.
        if (kind === "llama_cpp" && isCgnError(e) && e.code === "BAD_INVOCATION" && !own) return e.message;
        throw e;
      }
    };
    if (argv.length === 1 && argv[0] === "--version") {
      cli.out(SIMULATED_VERSIONS[kind]);
      return 0;
    }
    const settled = read(argv);
    if (typeof settled === "string") {
      cli.err(settled);
      return 1;
    }
    // Resetting the cache is what one starts a simulator by hand for.
    return serve(publishable({ ...settled, ...(own ? { devMode: true } : {}) }, cli, zeroMqProblem()), cli);
  },
};

const READERS = { vllm: readVllmArgv, sglang: readSglangArgv, llama_cpp: readLlamaArgv };

/** The engine's command line for `cgn sim`'s plain flags: there is one way in. */
function engineArgv(kind: SimOptions["kind"], options: Values): readonly string[] {
  const given = (flag: string, value: Values[string]): string[] => (value === undefined ? [] : [flag, String(value)]);
  const shared = [
    ...given("--host", options["host"]),
    ...given("--port", options["port"]),
    kind === "llama_cpp" ? "--alias" : "--served-model-name",
    String(options["model"]),
    ...(kind === "llama_cpp" ? [] : eventsArgv(options)),
    ...given("--sim-blocks", options["blocks"]),
    ...given("--sim-profile", options["profile"]),
    ...given("--sim-speed", options["speed"]),
    ...given("--sim-load-seconds", options["loadSeconds"]),
    ...given("--sim-seed", options["seed"]),
    ...offloadArgv(kind, String(options["kvOffload"])),
    ...(kind === "llama_cpp" ? [] : given("--sim-host-gib", options["hostGib"])),
    ...(kind === "llama_cpp" ? [] : given("--sim-disk-gib", options["diskGib"])),
    ...((options["fault"] as readonly string[] | undefined) ?? []).flatMap((fault) => ["--sim-fault", fault]),
  ];
  const block = String(options["blockSize"]);
  const model = String(options["model"]);
  if (kind === "llama_cpp") return ["--model", model, "--metrics", ...shared];
  if (kind === "sglang") {
    return ["--model-path", model, "--page-size", block, "--enable-metrics", "--enable-cache-report", ...shared];
  }
  return [
    "serve",
    model,
    "--block-size",
    block,
    "--enable-prompt-tokens-details",
    "--shutdown-timeout",
    "30",
    ...shared,
  ];
}

/** The shortest that the real engine takes. @throws CgnError BAD_INVOCATION for what the engine has not */
function offloadArgv(kind: SimKind, offload: string): string[] {
  const connector = { lmcache: "LMCacheConnectorV1", kvbm: "DynamoConnector", nixl: "NixlConnector" }[offload];
  if (offload === "none") return [];
  if (kind === "vllm" && connector !== undefined)
    return ["--kv-transfer-config", JSON.stringify({ kv_connector: connector, kv_role: "kv_both" })];
  if (kind === "sglang" && offload === "hicache") return ["--enable-hierarchical-cache"];
  const remedy = { vllm: "lmcache, kvbm or nixl", sglang: "hicache", llama_cpp: "none" }[kind];
  throw new CgnError(
    "BAD_INVOCATION",
    `Cannot be a ${kind} with ${offload}: it has no such offload. Use ${remedy}`,
    {},
  );
}

function eventsArgv(options: Values): string[] {
  const port = options["eventsPort"];
  if (typeof port !== "number") return [];
  const replay = typeof options["replayPort"] === "number" ? options["replayPort"] : port + 1;
  if (replay > PORT.max || replay === port) {
    const message = `Cannot replay KV events on port ${replay}: ${replay === port ? "they are published there" : "no port is above 65535"}`;
    throw new CgnError("BAD_INVOCATION", `${message}. Write another --replay-port`, { port: replay });
  }
  const events = {
    enable_kv_cache_events: true,
    publisher: "zmq",
    endpoint: `tcp://*:${port}`,
    replay_endpoint: `tcp://*:${replay}`,
    topic: "",
  };
  return ["--kv-events-config", JSON.stringify(events)];
}

/**
 * Without the ZeroMQ binding it is an engine that publishes nothing: everything else is there to be tried.
 * @param problem why the binding cannot be used
 */
export function publishable(options: SimOptions, { err }: Pick<CliContext, "err">, problem?: string): SimOptions {
  const { events, ...others } = options;
  if (events === undefined || problem === undefined) return options;
  err(`warning: no KV events are published. ${problem}`);
  return others;
}

/** Serve until the stop signal, then end as the engine does. */
async function serve(options: SimOptions, cli: CliContext): Promise<number> {
  cli.err(`Simulated ${options.kind} ${options.version}: loading ${options.modelPath}`);
  const deps: SimDeps = {
    clock: cli.clock,
    newId: () => randomUUID().replaceAll("-", ""),
    crash: () => process.kill(process.pid, "SIGKILL"),
    exit: (code) => process.exit(code),
  };
  const stopped = new Promise<"stopped">((resolve) => {
    if (cli.signal.aborted) resolve("stopped");
    cli.signal.addEventListener("abort", () => resolve("stopped"), { once: true });
  });
  const started = await Promise.race([startSim(options, deps), stopped]);
  if (started === "stopped") return exitNow();
  const orphans = startOrphans(options.orphans ?? 0);
  if (orphans.length > 0) cli.err(`Processes that outlive a kill: ${orphans.map(({ pid }) => pid).join(" ")}`);
  announce(started, options, cli);
  await stopped;
  cli.err("Shutting down");
  onSecondTerm(options.kind, cli);
  await started.terminate();
  for (const orphan of orphans) orphan.kill("SIGKILL");
  return 0;
}

/**
 * Children that a killed parent leaves behind, as EngineCore and Worker of a vLLM are left (seen on 0.32.0). They end with the
 * parent otherwise, and by themselves after ten minutes.
 */
function startOrphans(count: number): readonly ChildProcess[] {
  const idle = "setTimeout(() => {}, 600_000)";
  return Array.from({ length: count }, () => spawn(process.execPath, ["-e", idle], { stdio: "ignore" }));
}

/** What another SIGTERM does while the first is obeyed: llama-server ends at once with 1, vLLM does not care. */
function onSecondTerm(kind: SimKind, cli: CliContext): void {
  if (kind === "sglang") return;
  process.removeAllListeners("SIGTERM");
  process.on("SIGTERM", () => {
    if (kind === "vllm") return;
    cli.err("Received second interrupt, terminating immediately.");
    process.exit(1);
  });
}

/** Stopped while it loads: the sockets that may open yet must not keep the process. */
function exitNow(): never {
  process.exit(0);
}

function announce(server: SimServer, options: SimOptions, cli: CliContext): void {
  const { limits, events } = options;
  cli.err(
    `Serving ${options.models.join(", ")} on ${server.url} (${limits.blocks} blocks of ${limits.blockTokens} tokens)`,
  );
  if (events !== undefined) cli.err(`KV events on ${events.endpoint}, replay on ${events.replay ?? "none"}`);
  cli.err("Application startup complete.");
}
