import type { Role } from "../src/core/engine-kind.ts";
import type { KvOffload } from "../src/core/kv-offload.ts";

/** A launch that cannot work: what a user would write, and the command line that the engine would have been given. */
export interface WrongLaunch {
  readonly name: string;
  readonly program: string;
  /** Written under `[engine]`, `[agent]` and so on; the model, kind and address are added where they are missing. */
  readonly toml: string;
  /** The cell whose command line is changed. */
  readonly cell?: { readonly offload: KvOffload; readonly role: Role; readonly variant?: string };
  /** Flags with their values; a flag that the cell has is replaced. */
  readonly flags: readonly (readonly string[])[];
  /** Ask for the connector's own constructor too. */
  readonly construct?: boolean;
  /** Why cgn refuses what the engine takes at start. */
  readonly because?: string;
}

const NIXL = { kv_connector: "NixlConnector", kv_role: "kv_both" };
const LMCACHE = { kv_connector: "LMCacheConnectorV1", kv_role: "kv_both" };
const MODULE = { kv_connector_module_path: "kvbm.vllm_integration.connector" };

function toml(kind: string, section: string, lines: readonly string[], role = "both", offload = "none"): string {
  return `[agent]\nrole = "${role}"\n[engine]\nkind = "${kind}"\nkv_offload = "${offload}"\n[engine.${section}]\n${lines.join("\n")}`;
}

const extra = (words: readonly string[]): string => `extra_args = ${JSON.stringify(words)}`;

/** Words that a user adds to vLLM's command line. */
function vllm(
  name: string,
  words: readonly string[],
  more: Partial<WrongLaunch> & { offload?: KvOffload } = {},
): WrongLaunch {
  const { offload = "none", ...rest } = more;
  const cell = { offload, role: "both" as const };
  return {
    name,
    program: "vllm",
    toml: toml("vllm", "vllm", [extra(words)], "both", offload),
    cell,
    flags: [words],
    ...rest,
  };
}

function transfer(name: string, config: unknown, more: Partial<WrongLaunch> = {}): WrongLaunch {
  return vllm(
    `--kv-transfer-config: ${name}`,
    ["--kv-transfer-config", typeof config === "string" ? config : JSON.stringify(config)],
    more,
  );
}

const children = (...connectors: readonly object[]): object => ({ kv_connector_extra_config: { connectors } });

const VLLM: readonly WrongLaunch[] = [
  transfer("no JSON", "{kv_connector: NixlConnector}"),
  transfer("a list", "[]"),
  transfer("kv_rank, which is gone", { ...NIXL, kv_rank: 0 }),
  transfer("kv_parallel_size, which is gone", { ...NIXL, kv_parallel_size: 2 }),
  transfer("kv_ip, which is gone", { ...NIXL, kv_ip: "127.0.0.1" }),
  transfer("kv_buffer_size, which is gone", { ...NIXL, kv_buffer_size: 1e9 }),
  transfer("a role that is none", { ...NIXL, kv_role: "producer" }),
  transfer("no role", { kv_connector: "NixlConnector" }),
  transfer("an empty module path", { ...NIXL, kv_connector_module_path: "" }),
  transfer("PdConnector without its module path", {
    kv_connector: "PdConnector",
    kv_role: "kv_both",
    ...children(LMCACHE, NIXL),
  }),
  transfer("DynamoConnector without its module path", { kv_connector: "DynamoConnector", kv_role: "kv_both" }),
  transfer("a child of PdConnector without its module path", {
    kv_connector: "PdConnector",
    kv_role: "kv_both",
    ...MODULE,
    ...children({ kv_connector: "DynamoConnector", kv_role: "kv_both" }, NIXL),
  }),
  transfer("a child with an engine_id of its own", {
    kv_connector: "MultiConnector",
    kv_role: "kv_both",
    ...children({ ...NIXL, engine_id: "a" }, LMCACHE),
  }),
  transfer("a child with an unknown key", {
    kv_connector: "MultiConnector",
    kv_role: "kv_both",
    ...children({ ...NIXL, kv_rank: 1 }, LMCACHE),
  }),
  transfer("a child without a role", {
    kv_connector: "MultiConnector",
    kv_role: "kv_both",
    ...children({ kv_connector: "NixlConnector" }, LMCACHE),
  }),
  vllm("--kv-events-config: no JSON", ["--kv-events-config", "{enable_kv_cache_events: true}"]),
  vllm("--kv-events-config: a key of SGLang", [
    "--kv-events-config",
    '{"enable_kv_cache_events":true,"publisher":"zmq","bind":true}',
  ]),
  vllm("--kv-events-config: a publisher that is none", [
    "--kv-events-config",
    '{"enable_kv_cache_events":true,"publisher":"nats"}',
  ]),
  vllm("--prefix-caching-hash-algo builtin, which is gone", ["--prefix-caching-hash-algo", "builtin"]),
  vllm("--swap-space, which is gone", ["--swap-space", "4"]),
  vllm("--kv-offloading-size beside nixl", ["--kv-offloading-size", "4"], {
    offload: "nixl",
    because: "vLLM replaces the connector by its own without a word: prefill and decode would not hand over",
  }),
  {
    name: "a block size of 16 on a CPU",
    program: "vllm",
    toml: `[kv]\nblock_size_tokens = 16\n[agent]\nplatform = "cpu"\n[engine]\nkind = "vllm"`,
    cell: { offload: "none", role: "both", variant: "cpu" },
    flags: [["--block-size", "16"]],
    because: "its parser does not know the machine; the engine ends 26 s after its start (multiple of 32)",
  },
  {
    name: "role prefill with offload none",
    program: "vllm",
    toml: toml("vllm", "vllm", [], "prefill"),
    flags: [],
    because: "it starts as a plain engine, which has nothing to hand over with",
  },
  {
    name: "role decode with offload none",
    program: "vllm",
    toml: toml("vllm", "vllm", [], "decode"),
    flags: [],
    because: "it starts as a plain engine, which cannot take over",
  },
  ...(["both", "prefill", "decode"] as const).map(
    (role): WrongLaunch => ({
      name: `hicache, role ${role}`,
      program: "vllm",
      toml: toml("vllm", "vllm", [], role, "hicache"),
      flags: [["--enable-hierarchical-cache"], ["--hicache-ratio", "2"]],
    }),
  ),
  {
    name: "LMCache chunks that are no multiple of the block size",
    program: "vllm",
    toml: `[engine]\nkind = "vllm"\nkv_offload = "lmcache"\n[engine.vllm]\n[engine.vllm.lmcache]\nchunk_size = 100`,
    cell: { offload: "lmcache", role: "both" },
    flags: [],
    because: "LMCache reads its chunk size when the engine runs; chunks that cut blocks are never found again",
  },
  {
    name: "PdConnector over LMCacheMPConnector",
    program: "vllm",
    toml: `[agent]\nrole = "prefill"\n[engine]\nkind = "vllm"\nkv_offload = "lmcache"\n[engine.vllm.lmcache]\nmode = "mp"\nwrapper = "pd_connector"`,
    cell: { offload: "none", role: "both" },
    flags: [
      [
        "--kv-transfer-config",
        JSON.stringify({
          kv_connector: "PdConnector",
          kv_role: "kv_both",
          ...MODULE,
          ...children({ kv_connector: "LMCacheMPConnector", kv_role: "kv_both" }, NIXL),
        }),
      ],
      ["--disable-hybrid-kv-cache-manager"],
    ],
    because: "the class is found, and its constructor waits for a server before it looks at its children",
  },
  vllm("a tensor-parallel size of 0", ["--tensor-parallel-size", "0"], {
    toml: `[engine]\nkind = "vllm"\n[models."org/model"]\ntp = 0`,
  }),
  vllm("a negative context limit", ["--max-model-len", "-5"], {
    toml: `[engine]\nkind = "vllm"\n[models."org/model"]\nmax_model_len = -5`,
  }),
  vllm("a block size of 0", ["--block-size", "0"], { toml: `[kv]\nblock_size_tokens = 0\n[engine]\nkind = "vllm"` }),
  vllm("a port that no host has", ["--port", "70000"], {
    toml: `[engine]\nkind = "vllm"\nport = 70000`,
    because: "its parser takes any number; the bind fails after the model was loaded",
  }),
];

/** Words that a user adds to SGLang's command line. */
function sglang(
  name: string,
  words: readonly string[],
  more: Partial<WrongLaunch> & { offload?: KvOffload; role?: Role } = {},
): WrongLaunch {
  const { offload = "none", role = "both", ...rest } = more;
  return {
    name,
    program: "sglang",
    toml: toml("sglang", "sglang", [extra(words)], role, offload),
    cell: { offload, role },
    flags: splitFlags(words),
    ...rest,
  };
}

function splitFlags(words: readonly string[]): string[][] {
  const flags: string[][] = [];
  for (const word of words) {
    if (word.startsWith("--") || flags.length === 0) flags.push([word]);
    else flags.at(-1)!.push(word);
  }
  return flags;
}

const LATE = "its parser takes any number, and the failure comes late or never";

const SGLANG: readonly WrongLaunch[] = [
  ...(["lmcache", "kvbm"] as const).map(
    (offload): WrongLaunch => ({
      name: `${offload}, a connector of vLLM`,
      program: "sglang",
      toml: toml("sglang", "sglang", [], "both", offload),
      flags: [
        [
          "--kv-transfer-config",
          JSON.stringify(
            offload === "lmcache" ? LMCACHE : { kv_connector: "DynamoConnector", kv_role: "kv_both", ...MODULE },
          ),
        ],
      ],
    }),
  ),
  sglang("vLLM's --max-model-len", ["--max-model-len", "4096"]),
  sglang("vLLM's --gpu-memory-utilization", ["--gpu-memory-utilization", "0.9"]),
  sglang("vLLM's --block-size", ["--block-size", "16"]),
  sglang("vLLM's --enable-prefix-caching", ["--enable-prefix-caching"]),
  sglang("vLLM's --max-num-seqs", ["--max-num-seqs", "8"]),
  sglang("llama-server's --ctx-size", ["--ctx-size", "4096"]),
  sglang("--disaggregation-decode-tp, which is gone", ["--disaggregation-decode-tp", "2"], {
    offload: "nixl",
    role: "prefill",
  }),
  sglang("a layout that is none", ["--hicache-mem-layout", "rows"], { offload: "hicache" }),
  sglang("an I/O backend that is none", ["--hicache-io-backend", "dma"], { offload: "hicache" }),
  sglang("a write policy that is none", ["--hicache-write-policy", "never"], { offload: "hicache" }),
  sglang("a third level that is none", ["--hicache-storage-backend", "lmcache"], { offload: "hicache" }),
  sglang("a transfer backend that is none", ["--disaggregation-transfer-backend", "tcp"], {
    offload: "nixl",
    role: "prefill",
  }),
  sglang("HiCache without the radix cache", ["--disable-radix-cache"], { offload: "hicache" }),
  sglang("HiCache beside --enable-lmcache", ["--enable-lmcache"], { offload: "hicache" }),
  sglang("--enable-hierarchical-cache alone on decode", ["--enable-hierarchical-cache"], {
    offload: "nixl",
    role: "decode",
  }),
  sglang("a buffer without a third level", ["--hicache-host-memory-mode", "buffer_only"], { offload: "hicache" }),
  sglang(
    "decode offload on a prefill worker",
    ["--disaggregation-decode-enable-offload-kvcache", "--hicache-storage-backend", "file"],
    { offload: "nixl", role: "prefill" },
  ),
  sglang("decode offload without a third level", ["--disaggregation-decode-enable-offload-kvcache"], {
    offload: "nixl",
    role: "decode",
  }),
  sglang("transfer backend fake on prefill", ["--disaggregation-transfer-backend", "fake"], {
    offload: "nixl",
    role: "prefill",
  }),
  sglang(
    "decode radix cache over backend fake",
    ["--disaggregation-decode-enable-radix-cache", "--disaggregation-transfer-backend", "fake"],
    { offload: "nixl", role: "decode" },
  ),
  sglang(
    "decode radix cache with speculative decoding",
    ["--disaggregation-decode-enable-radix-cache", "--speculative-algorithm", "NGRAM"],
    { offload: "nixl", role: "decode" },
  ),
  sglang("a served name with a colon", ["--served-model-name", "org:model"]),
  sglang("two served names", ["--served-model-name", "a", "b"]),
  sglang("a page size of 0", ["--page-size", "0"]),
  sglang("a page size that cuts chunks", ["--page-size", "7"]),
  sglang("--kv-events-config: no JSON", ["--kv-events-config", "{publisher: zmq}"]),
  sglang("--kv-events-config: a publisher that is none", ["--kv-events-config", '{"publisher":"nats"}']),
  sglang(
    "--kv-events-config: a key of vLLM",
    ["--kv-events-config", '{"enable_kv_cache_events":true,"publisher":"zmq"}'],
    {
      because: "SGLang drops the key in silence, and whoever wrote it believes otherwise",
    },
  ),
  sglang("a memory share above 1", ["--mem-fraction-static", "1.5"], { because: LATE }),
  sglang("a host pool smaller than the device's", ["--hicache-ratio", "0.5"], { offload: "hicache", because: LATE }),
  sglang("a bootstrap port that no host has", ["--disaggregation-bootstrap-port", "70000"], {
    offload: "nixl",
    role: "prefill",
    because: LATE,
  }),
  sglang("the decode radix cache on prefill", ["--disaggregation-decode-enable-radix-cache"], {
    offload: "nixl",
    role: "prefill",
    because: "SGLang takes it and does nothing with it",
  }),
];

/** Offloads and roles that an engine with none of its own is asked for, as the nearest flags of those that have them. */
function noneOnly(kind: "llama_cpp" | "mlx", program: string, variant: string, section: string): WrongLaunch[] {
  const cell = { offload: "none", role: "both", variant } as const;
  const make = (name: string, offload: string, role: string, flags: readonly (readonly string[])[]): WrongLaunch => ({
    name,
    program,
    toml: toml(
      kind,
      kind,
      [section].filter((line) => line !== ""),
      role,
      offload,
    ),
    cell,
    flags,
  });
  return [
    make("nixl", "nixl", "both", [["--kv-transfer-config", JSON.stringify(NIXL)]]),
    make("lmcache", "lmcache", "both", [["--kv-transfer-config", JSON.stringify(LMCACHE)]]),
    make("hicache", "hicache", "both", [["--enable-hierarchical-cache"]]),
    make("role prefill", "none", "prefill", [["--disaggregation-mode", "prefill"]]),
    make("role decode", "none", "decode", [["--disaggregation-mode", "decode"]]),
  ];
}

/** Every wrong launch, by program. */
export const WRONG: readonly WrongLaunch[] = [
  ...VLLM,
  ...SGLANG,
  ...noneOnly("mlx", "mlx-lm", "default", ""),
  ...noneOnly("llama_cpp", "llama-server", "binary", 'mode = "binary"'),
  {
    name: "several slots",
    program: "llama_cpp.server",
    toml: toml("llama_cpp", "llama_cpp", ['mode = "python_server"', "parallel = 4"]),
    cell: { offload: "none", role: "both", variant: "python-server" },
    flags: [["--parallel", "4"]],
  },
];
