import { CgnError } from "../../../core/errors.ts";
import { PROFILES } from "../../model/profile.ts";
import { readSimFlags, SIM_FLAGS, settleSizes } from "../sim-flags.ts";
import { SIMULATED_VERSIONS, type SimOptions } from "../sim-options.ts";
import { LLAMA_FLAGS, type LlamaFlag } from "./llama-flags.ts";

/** Slots where `--parallel` is not written: they share one context. */
const AUTOMATIC_SLOTS = 4;
/** Tokens that a MiB of `--cache-ram` holds: those of a model of some 8 billion weights (128 KiB a token). */
const TOKENS_PER_MIB = 8;
const UNLIMITED_TOKENS = 4_000_000;

type Env = Readonly<Record<string, string | undefined>>;
type Values = ReadonlyMap<string, readonly string[]>;

/** End with llama-server's words; its exit code is 1. @throws CgnError BAD_INVOCATION */
function refuse(message: string): never {
  throw new CgnError("BAD_INVOCATION", message, {});
}

/**
 * Read llama-server's command line and its environment variables as it does: each flag that `--help` lists, and no other.
 * @throws CgnError BAD_INVOCATION in its words
 */
export function readLlamaArgv(argv: readonly string[], env: Env): SimOptions {
  const words = argv[0] === "llama-server" ? argv.slice(1) : argv;
  const values = parse(words, env);
  const text = (name: string): string | undefined => values.get(name)?.[0];
  const int = (name: string, fallback: number): number => Number.parseInt(text(name) ?? String(fallback), 10);
  const modelPath = text("model");
  if (modelPath === undefined) refuse("error: no model: router mode is not simulated. Write -m FILE");
  const sim = readSimFlags("llama-server", { positionals: [], values });
  const parallel = int("parallel", -1);
  if (parallel === 0) badValue("--parallel", "error: invalid value for n_parallel");
  const slots = parallel > 0 ? parallel : AUTOMATIC_SLOTS;
  const shared = text("kv-unified") === "true" || (parallel <= 0 && text("kv-unified") !== "false");
  const sizes = contextOf(sim.blocks, int("ctx-size", 0), slots, shared);
  const mib = int("cache-ram", 8_192);
  const storeTokens = mib < 0 ? UNLIMITED_TOKENS : mib * TOKENS_PER_MIB;
  const save = text("slot-save-path");
  return {
    kind: "llama_cpp",
    version: SIMULATED_VERSIONS.llama_cpp,
    host: (text("host") ?? "127.0.0.1").split(",")[0]!,
    port: int("port", 8080),
    models: namesOf(text("alias"), modelPath),
    modelPath,
    maxModelTokens: sizes.slotTokens,
    limits: {
      blocks: sizes.tokens,
      blockTokens: 1,
      maxBatchedTokens: Math.max(1, int("batch-size", 2_048)),
      maxSequences: slots,
      prefixCaching: text("cache-prompt") !== "false",
      generatedBlocks: "at-finish",
      publishesWhenIdle: false,
      eviction: "llama_cpp",
      slots: {
        minShare: Number(text("slot-prompt-similarity") ?? 0.1),
        storeTokens,
        emptiesFree: shared && storeTokens > 0 && text("cache-idle-slots") !== "false",
        savesFree: storeTokens > 0 && text("cache-idle-slots") !== "false",
      },
    },
    profile: sim.profile ?? PROFILES["default"]!,
    speed: sim.speed,
    loadMs: sim.loadMs,
    seed: sim.seed,
    reportsCachedTokens: true,
    metrics: text("metrics") === "true",
    hashAlgorithm: "none",
    shutdownTimeoutS: 0,
    apiKeys: (text("api-key") ?? "").split(",").filter((key) => key !== ""),
    devMode: false,
    llama: {
      pingMs: 1000 * int("sse-ping-interval", 30),
      slotsEndpoint: text("slots") !== "false",
      propsEndpoint: text("props") === "true",
      ...(save === undefined ? {} : { slotSavePath: save }),
    },
    faults: sim.faults,
  };
}

/** `--ctx-size` is for all slots together, unless they share it: then each may have all of it. */
function contextOf(blocks: number | undefined, written: number, slots: number, shared: boolean) {
  const tokens = blocks ?? (written > 0 ? written : 8_192 * (shared ? 1 : slots));
  const { maxModelTokens } = settleSizes("llama-server", { blocks: tokens, blockTokens: 1, maxModelTokens: undefined });
  return { tokens, slotTokens: Math.max(1, shared ? Math.min(tokens, maxModelTokens) : Math.floor(tokens / slots)) };
}

function namesOf(alias: string | undefined, path: string): readonly [string, ...string[]] {
  const [first, ...rest] = (alias ?? "").split(",").filter((name) => name !== "");
  return first === undefined ? [path.split("/").at(-1) ?? path] : [first, ...rest];
}

const BY_NAME: ReadonlyMap<string, LlamaFlag> = new Map(
  [
    ...LLAMA_FLAGS,
    ...Object.keys(SIM_FLAGS).map(
      (name): LlamaFlag => ({ name, kind: "text", names: [`--${name}`], off: [], env: undefined }),
    ),
  ].flatMap((flag) => flag.names.map((name) => [name, flag] as const)),
);

function parse(argv: readonly string[], env: Env): Values {
  const values = fromEnvironment(env);
  for (let i = 0; i < argv.length; ) {
    const written = argv[i++]!;
    const word = written.startsWith("--") ? written.replaceAll("_", "-") : written;
    const flag = BY_NAME.get(word);
    if (flag === undefined) refuse(`error: invalid argument: ${word}`);
    if (flag.kind === "bare") {
      values.set(flag.name, [flag.off.includes(word) ? "false" : "true"]);
      continue;
    }
    const wanted = flag.kind === "pair" ? 2 : 1;
    const given = argv.slice(i, i + wanted);
    i += wanted;
    if (given.length < wanted) badValue(word, "expected value for argument");
    if (flag.kind === "int" && !isInt(given[0]!)) badValue(word, "stoi");
    const many = flag.name === "sim-fault" ? (values.get(flag.name) ?? []) : [];
    values.set(flag.name, [...many, ...given]);
  }
  return values;
}

/** `std::stoi` reads a number's beginning. */
const isInt = (text: string): boolean => /^\s*[+-]?\d/.test(text);

function badValue(word: string, why: string): never {
  refuse(
    `error while handling argument "${word}": ${why}\n\nusage:\n${word} VALUE\n\n\nto show complete usage, run with -h`,
  );
}

function fromEnvironment(env: Env): Map<string, readonly string[]> {
  const values = new Map<string, readonly string[]>();
  for (const { name, env: variable, kind } of LLAMA_FLAGS) {
    const value = variable === undefined ? undefined : env[variable];
    if (value === undefined) continue;
    if (kind === "int" && !isInt(value)) refuse(`error: error while handling environment variable "${variable}": stoi`);
    values.set(name, [kind === "bare" ? String(["on", "enabled", "true", "1"].includes(value)) : value]);
  }
  return values;
}
