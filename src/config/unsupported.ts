import type { KvOffload } from "../core/kv-offload.ts";
import type { KeyPath } from "./key-path.ts";
import { isTable } from "./layers.ts";
import { isWritten, type LoadContext, originOf, report } from "./load-context.ts";
import { isGiven, isOn, NOT_YET, NOT_YET_PER_MODEL, type Unsupported } from "./not-yet.ts";
import { at } from "./problems.ts";

const RULES: readonly Unsupported[] = [
  {
    path: ["router", "autoscaler", "enabled"],
    asks: isOn,
    problem: "cgn does not start or stop hosts; the key does nothing",
    remedy: "Set [[engines]].ttl to stop idle engines of this host",
  },
  {
    path: ["router", "autoscaler", "deadline_admission"],
    asks: isOn,
    problem: "cgn's admission knows no autoscaler; the key does nothing",
    remedy: "Set [router.admission].ttft_slo, or send x-cgn-deadline-ms with a request",
  },
  {
    path: ["metrics", "ipmi_fallback"],
    asks: isOn,
    problem: "this version of cgn reads no power figures by IPMI; the key does nothing",
    remedy: "Let Prometheus read them with an IPMI exporter, and set [router.score_weights].power = 0",
  },
  {
    path: ["cluster", "state_backend"],
    asks: (value) => value === "gossip",
    problem: "cgn has no gossip; it goes on with memory, so only daemons of one process find each other",
    remedy: 'Set state_backend = "etcd" with etcd_endpoints for several hosts, or "memory" for one',
  },
  {
    path: ["cluster", "gossip_seeds"],
    asks: isGiven,
    problem: "cgn has no gossip; the key does nothing",
    remedy: "Set etcd_endpoints, and remove gossip_seeds",
  },
];

const PER_MODEL: readonly Unsupported[] = [
  ...(["prefill", "decode"] as const).map((role) => ({
    path: [`${role}_replicas`],
    asks: (value: unknown) => typeof value === "number" && value > 0,
    problem: "cgn starts the engines that are listed, and no others; the key does nothing",
    remedy: `Write one [[engines]] with role = "${role}" for each replica`,
  })),
];

/** Note every written key that asks for what cgn does not do, each once, with what to set instead. */
export function warnUnsupported(ctx: LoadContext, offloads: readonly KvOffload[]): void {
  const { models } = ctx.layers.tree;
  for (const rule of [...RULES, ...NOT_YET]) warn(ctx, rule.path, rule);
  for (const name of Object.keys(isTable(models) ? models : {})) {
    for (const rule of [...PER_MODEL, ...NOT_YET_PER_MODEL]) warn(ctx, ["models", name, ...rule.path], rule);
  }
  warnBlockStore(ctx, offloads);
}

function warn(ctx: LoadContext, path: KeyPath, rule: Unsupported): void {
  if (!isWritten(ctx, path) || !rule.asks(at(ctx.layers.tree, path))) return;
  // A value that is wrong is mended first; whether it does something is the second question.
  const written = originOf(ctx, path);
  const name = written !== undefined && "path" in written ? written.path : "";
  if (ctx.layers.problems.some((p) => p.severity === "error" && p.path === name)) return;
  report(ctx, path, { severity: "warning", problem: rule.problem, remedy: rule.remedy });
}

const STORE_KEYS = ["ssd_dir", "ssd_gib", "transport", "quic_listen", "ram_gib"] as const;

/** What keeps or carries KV bytes, by the dial. */
const INSTEAD: Readonly<Record<KvOffload, string>> = {
  none: 'With kv_offload = "none" KV stays on the GPU: choose lmcache or kvbm (vLLM) or hicache (SGLang) to keep more',
  nixl: 'With kv_offload = "nixl" KV is handed over and not kept: choose lmcache or kvbm (vLLM) or hicache (SGLang) to keep more, and UCX_TLS for the transport',
  lmcache:
    'With kv_offload = "lmcache" set [engine.vllm.lmcache].cpu_gib for memory; disk and remote stores are LMCache\'s own settings',
  hicache:
    'With kv_offload = "hicache" set [engine.sglang.hicache].size_gib or ratio for memory, and storage for what lies behind it',
  kvbm: 'With kv_offload = "kvbm" set [engine.vllm.kvbm].cpu_cache_gib for memory, disk_cache_gib and disk_dir for the SSD',
};

/** For a file without engines: the keys stand in the agent's. */
const INSTEAD_ELSEWHERE =
  "Set [engine].kv_offload in the agent's file, and with it [engine.vllm.lmcache].cpu_gib, [engine.vllm.kvbm].cpu_cache_gib " +
  "and disk_cache_gib, or [engine.sglang.hicache].size_gib";

/**
 * One warning for all keys that sized the original's block store. `ram_gib` still means something: it caps the index, which
 * is said; `index_gib` is the same without the warning.
 */
function warnBlockStore(ctx: LoadContext, offloads: readonly KvOffload[]): void {
  const written = STORE_KEYS.filter((key) => isWritten(ctx, ["kv", key]));
  const first = written[0];
  if (first === undefined) return;
  const idle = written.filter((key) => key !== "ram_gib");
  const verb = idle.length === 1 ? "does nothing" : "do nothing";
  const said = [
    ...(idle.length > 0 ? [`${idle.join(", ")} ${verb}`] : []),
    ...(written.includes("ram_gib")
      ? ["ram_gib caps the prefix index only (index_gib says the same without this warning)"]
      : []),
  ];
  const dials = [...new Set(offloads)];
  report(ctx, ["kv", first], {
    severity: "warning",
    problem: `cgn stores and carries no KV bytes, the engines' connectors do; ${said.join("; ")}`,
    remedy: dials.length === 0 ? INSTEAD_ELSEWHERE : dials.map((dial) => INSTEAD[dial]).join(". "),
  });
}
