import { parseUserArgs, type UserFlag } from "../args.ts";
import { fieldsOf, readJson } from "../probe-text.ts";
import { IO_BACKENDS, MEM_LAYOUTS, WRITE_POLICIES } from "./sglang-options.ts";
import { type SglangFeatures, sglangFeatures } from "./versions.ts";

/** One thing that is wrong in a launch, by the flag that is to blame. */
export interface FlagProblem {
  readonly flag: string;
  readonly problem: string;
  readonly remedy: string;
}

/**
 * Check the arguments behind `python -m sglang.launch_server`, whoever wrote them.
 *
 * Two kinds of rule: what SGLang's own parser refuses (known before a start that takes half a minute), and what it accepts
 * although it cannot work (ports out of range, shares above 1, flags of the other role). Flags without a rule pass.
 * Source: 141 argument lists and the real parser's answers, SGLang 0.5.23 (`testdata/SOURCE.md`); what older versions lack is
 * read in their wheels.
 *
 * @param features - of the version that is installed; default: the newest known
 */
export function checkSglangArgs(argv: readonly string[], features = sglangFeatures(undefined)): FlagProblem[] {
  const flags = new Flags(argv);
  return [
    ...foreign(flags),
    ...choices(flags, features),
    ...younger(flags, features),
    ...numbers(flags),
    ...names(flags),
    ...pages(flags),
    ...hicache(flags),
    ...disaggregation(flags),
    ...kvEvents(flags, features),
  ];
}

/** The last writing of each flag, under its main name. */
class Flags {
  readonly all: readonly UserFlag[];
  readonly #byName = new Map<string, UserFlag>();

  constructor(argv: readonly string[]) {
    this.all = parseUserArgs(argv);
    for (const flag of this.all) this.#byName.set(ALIASES[flag.name] ?? flag.name, flag);
  }

  has(name: string): boolean {
    return this.#byName.has(name);
  }

  /** The first value; undefined when the flag is missing or bare. */
  value(name: string): string | undefined {
    return this.#byName.get(name)?.values[0];
  }

  values(name: string): readonly string[] {
    return this.#byName.get(name)?.values ?? [];
  }
}

const ALIASES: Readonly<Record<string, string>> = {
  "--model": "--model-path",
  "--tp": "--tp-size",
  "--tensor-parallel-size": "--tp-size",
  "--data-parallel-size": "--dp-size",
};

/** Flags of other engines (and of old SGLang) that people carry over, and what stands for them. */
const FOREIGN: Readonly<Record<string, string>> = {
  "--kv-transfer-config": "Set kv_offload and role",
  "--max-model-len": "Use --context-length",
  "--ctx-size": "Use --context-length",
  "--gpu-memory-utilization": "Use --mem-fraction-static",
  "--block-size": "Use --page-size, or set [kv].block_size_tokens",
  "--max-num-seqs": "Use --max-running-requests",
  "--enable-prefix-caching": "Remove it: the radix cache is on unless --disable-radix-cache is given",
  "--enable-chunked-prefill": "Remove it: chunked prefill is on; --chunked-prefill-size sets its size",
  "--disaggregation-decode-tp": "Remove it: SGLang dropped it",
  "--disaggregation-decode-dp": "Remove it: SGLang dropped it",
};

function foreign(flags: Flags): FlagProblem[] {
  return flags.all.flatMap(({ name }) => {
    const remedy = FOREIGN[name];
    return remedy === undefined ? [] : [{ flag: name, problem: `SGLang has no flag ${name}`, remedy }];
  });
}

const CHOICES: Readonly<Record<string, readonly string[]>> = {
  "--hicache-mem-layout": MEM_LAYOUTS,
  "--hicache-io-backend": IO_BACKENDS,
  "--hicache-write-policy": WRITE_POLICIES,
  "--hicache-storage-prefetch-policy": ["best_effort", "wait_complete", "timeout"],
  "--hicache-host-memory-mode": ["cache", "buffer_only"],
  "--disaggregation-mode": ["null", "prefill", "decode"],
};

function choices(flags: Flags, { storage, transferBackends, version }: SglangFeatures): FlagProblem[] {
  const all = {
    ...CHOICES,
    "--hicache-storage-backend": storage,
    "--disaggregation-transfer-backend": transferBackends,
  };
  return Object.entries(all).flatMap(([flag, known]) => {
    const value = flags.value(flag);
    if (value === undefined || known.includes(value)) return [];
    const problem = `${flag} ${value} is no choice of SGLang ${version}`;
    return [{ flag, problem, remedy: `Use one of ${known.join(", ")}` }];
  });
}

/** Flags that an older version does not have. */
function younger(flags: Flags, { decodeRadix, hostMemoryMode, version }: SglangFeatures): FlagProblem[] {
  const rules: readonly (readonly [string, boolean, string])[] = [
    ["--disaggregation-decode-enable-radix-cache", decodeRadix, "Set hicache.decode_radix = false, or use 0.5.11"],
    ["--hicache-host-memory-mode", hostMemoryMode, "Remove it, or use 0.5.19"],
  ];
  return rules
    .filter(([flag, has]) => !has && flags.has(flag))
    .map(([flag, , remedy]) => ({
      flag,
      problem: `SGLang ${version} has no flag ${flag}`,
      remedy: `${remedy} or newer`,
    }));
}

interface Range {
  readonly flag: string;
  ok(value: number): boolean;
  readonly remedy: string;
}

const isPort = (n: number): boolean => Number.isInteger(n) && n >= 1 && n <= 65_535;

/** SGLang 0.5.23 accepts all of these at any value but page size 0, and fails or misbehaves later. */
const RANGES: readonly Range[] = [
  { flag: "--port", ok: isPort, remedy: "Use a port from 1 to 65535" },
  { flag: "--disaggregation-bootstrap-port", ok: isPort, remedy: "Use a port from 1 to 65535" },
  { flag: "--mem-fraction-static", ok: (n) => n > 0 && n < 1, remedy: "Use a share between 0 and 1, for example 0.85" },
  { flag: "--hicache-ratio", ok: (n) => n > 1, remedy: "Use a ratio above 1: a smaller host pool holds nothing new" },
  { flag: "--page-size", ok: (n) => Number.isInteger(n) && n >= 1, remedy: "Use a whole number of tokens, at least 1" },
  { flag: "--tp-size", ok: (n) => Number.isInteger(n) && n >= 1, remedy: "Use a whole number of GPUs, at least 1" },
  { flag: "--dp-size", ok: (n) => Number.isInteger(n) && n >= 1, remedy: "Use a whole number of replicas, at least 1" },
];

function numbers(flags: Flags): FlagProblem[] {
  return RANGES.flatMap(({ flag, ok, remedy }) => {
    const text = flags.value(flag);
    if (text === undefined || (text.trim() !== "" && ok(Number(text)))) return [];
    return [{ flag, problem: `${flag} ${text} is out of range`, remedy }];
  });
}

function names(flags: Flags): FlagProblem[] {
  const flag = "--served-model-name";
  const [name, ...more] = flags.values(flag);
  const found: FlagProblem[] = [];
  if (name?.includes(":")) {
    const problem = `the served name "${name}" has a colon, which SGLang keeps for model:adapter`;
    found.push({ flag, problem, remedy: "Name the model without a colon" });
  }
  if (more.length > 0) {
    found.push({
      flag,
      problem: `${flag} has ${more.length + 1} names, and SGLang takes one`,
      remedy: "Give one name",
    });
  }
  return found;
}

/** Chunk sizes that SGLang picks by GPU memory are powers of two from 2048 on. */
const SMALLEST_CHUNK = 2048;

function pages(flags: Flags): FlagProblem[] {
  const flag = "--page-size";
  const page = Number(flags.value(flag) ?? 1);
  const written = flags.value("--chunked-prefill-size");
  const chunk = Number(written ?? SMALLEST_CHUNK);
  if (!Number.isInteger(page) || page < 1 || !Number.isInteger(chunk) || chunk <= 0 || chunk % page === 0) return [];
  const of =
    written === undefined ? "the chunked prefill sizes that SGLang picks" : `--chunked-prefill-size ${written}`;
  return [
    { flag, problem: `page size ${page} does not divide ${of}`, remedy: "Use a power of two, for example 16 or 64" },
  ];
}

const EXCLUSIVE = "SGLang refuses the two together";

function hicache(flags: Flags): FlagProblem[] {
  const found: FlagProblem[] = [];
  const say = (flag: string, problem: string, remedy: string): void => void found.push({ flag, problem, remedy });
  const on = "--enable-hierarchical-cache";
  const storage = flags.value("--hicache-storage-backend");
  const isDecode = flags.value("--disaggregation-mode") === "decode";
  if (flags.has(on) && flags.has("--disable-radix-cache")) {
    say("--disable-radix-cache", `HiCache stacks on the radix cache: ${EXCLUSIVE}`, "Remove --disable-radix-cache");
  }
  if (flags.has(on) && flags.has("--enable-lmcache")) {
    say("--enable-lmcache", `${on} and --enable-lmcache exclude each other: ${EXCLUSIVE}`, "Keep one of the two");
  }
  if (flags.has(on) && isDecode && !flags.has("--disaggregation-decode-enable-radix-cache")) {
    say(
      on,
      `${on} on a decode worker needs its radix cache, which SGLang turns off there`,
      "Set hicache.decode_radix = true, or remove it",
    );
  }
  if (flags.value("--hicache-host-memory-mode") === "buffer_only") {
    const mode = "--hicache-host-memory-mode";
    if (storage === undefined) say(mode, `${mode} buffer_only has nowhere to keep blocks`, "Set hicache.storage");
    if (isDecode) say(mode, `${mode} buffer_only does not work on a decode worker`, "Use cache");
    if (flags.value("--hicache-write-policy") === "write_back") {
      say(mode, `${mode} buffer_only and write_back exclude each other`, "Use write_through");
    }
  }
  if (storage === "dynamic" && !flags.has("--hicache-storage-backend-extra-config")) {
    const remedy =
      "Add --hicache-storage-backend-extra-config with backend_name, module_path and class_name to extra_args";
    say("--hicache-storage-backend", "storage backend dynamic does not say which class to load", remedy);
  }
  return found;
}

function disaggregation(flags: Flags): FlagProblem[] {
  const found: FlagProblem[] = [];
  const say = (flag: string, problem: string, remedy: string): void => void found.push({ flag, problem, remedy });
  const mode = flags.value("--disaggregation-mode") ?? "null";
  const fake = flags.value("--disaggregation-transfer-backend") === "fake";
  const offload = "--disaggregation-decode-enable-offload-kvcache";
  const radix = "--disaggregation-decode-enable-radix-cache";
  if (fake && mode === "prefill")
    say("--disaggregation-transfer-backend", "a prefill worker cannot hand over by fake", "Use nixl or mooncake");
  if (flags.has(offload) && mode !== "decode") say(offload, `${offload} is for decode workers only`, "Remove it");
  if (flags.has(offload) && !flags.has("--hicache-storage-backend"))
    say(offload, `${offload} has no third level to write to`, "Set hicache.storage");
  if (flags.has(radix)) {
    if (mode !== "decode") say(radix, `${radix} has no effect but on a decode worker`, "Remove it");
    if (fake) say(radix, `${radix} and transfer backend fake: ${EXCLUSIVE}`, "Use nixl or mooncake");
    if (flags.has("--speculative-algorithm"))
      say(radix, `${radix} and speculative decoding: ${EXCLUSIVE}`, "Remove one of the two");
  }
  return found;
}

/** Fields of SGLang's KVEventsConfig (0.5.23), with a check of their values. Unknown fields are dropped in silence there. */
const EVENT_FIELDS: Readonly<Record<string, (value: unknown) => boolean>> = {
  publisher: (v) => v === "zmq" || v === "null",
  format: (v) => v === "default" || v === "dynamo",
  endpoint: (v) => typeof v === "string",
  replay_endpoint: (v) => v === null || typeof v === "string",
  bind: (v) => v === null || typeof v === "boolean",
  topic: (v) => typeof v === "string",
  buffer_steps: Number.isInteger,
  hwm: Number.isInteger,
  max_queue_size: Number.isInteger,
};

function kvEvents(flags: Flags, { eventBind, version }: SglangFeatures): FlagProblem[] {
  const flag = "--kv-events-config";
  const text = flags.value(flag);
  if (text === undefined) return [];
  const config = readJson(text);
  if (typeof config !== "object" || config === null || Array.isArray(config)) {
    return [
      {
        flag,
        problem: `${flag} is no JSON object`,
        remedy: 'Write it like {"publisher":"zmq","endpoint":"tcp://*:5557"}',
      },
    ];
  }
  return Object.entries(fieldsOf(config)).flatMap(([key, value]) => {
    const check = EVENT_FIELDS[key];
    if (!eventBind && (key === "bind" || key === "format")) {
      const remedy = key === "bind" ? "Use an endpoint with *, which binds" : "Remove it";
      return [{ flag, problem: `SGLang ${version} drops ${key} of ${flag} without a word`, remedy }];
    }
    if (check?.(value)) return [];
    const known = Object.keys(EVENT_FIELDS).join(", ");
    if (check === undefined) return [{ flag, problem: `${flag} has no key "${key}"`, remedy: `Keys: ${known}` }];
    return [
      {
        flag,
        problem: `${flag} has a wrong ${key}: ${JSON.stringify(value)}`,
        remedy: REMEDIES[key] ?? "Give the right type",
      },
    ];
  });
}

const REMEDIES: Readonly<Record<string, string>> = {
  publisher: "Use zmq, or null for no events",
  format: "Use default or dynamo",
};
