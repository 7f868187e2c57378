import type { Fleet } from "./plan-search.ts";

/** What the configuration needs besides the fleet. */
export interface PlanTomlOptions {
  readonly kind: "vllm" | "sglang";
  readonly model: string;
  readonly gpusPerEngine: number;
  /** A comment for the top, line by line. */
  readonly about: readonly string[];
}

const FIRST_PORT = 8000;
/** Apart enough for the side ports that connectors derive. */
const PORT_STEP = 10;

/** A configuration for one host that has the fleet's GPUs; `cgn check` takes it. */
export function planToml(fleet: Fleet, options: PlanTomlOptions): string {
  const { kind, model, gpusPerEngine } = options;
  const name = JSON.stringify(model);
  const engines = Array.from({ length: fleet.engines }, (_, i) => {
    const gpus = Array.from({ length: gpusPerEngine }, (_, g) => i * gpusPerEngine + g);
    const role = fleet.prefill === undefined ? [] : [`role = "${i < fleet.prefill ? "prefill" : "decode"}"`];
    return [
      "[[engines]]",
      `kind = "${kind}"`,
      `model = ${name}`,
      `node_id = "engine-${i}"`,
      `port = ${FIRST_PORT + i * PORT_STEP}`,
      `gpus = [${gpus.join(", ")}]`,
      `kv_offload = "${offloadOf(fleet)}"`,
      ...role,
      ...tierKeys(fleet),
      "",
    ];
  });
  return [
    ...options.about.map((line) => `# ${line}`),
    "",
    "[router]",
    `policy = "${fleet.policy}"`,
    ...(fleet.prefill === undefined ? [] : ["", "[router.disagg]", "enabled = true"]),
    "",
    `[models.${name}]`,
    `tp = ${gpusPerEngine}`,
    "",
    ...engines.flat(),
  ].join("\n");
}

/** Prefill and decode hand over by NIXL where nothing else brings a connector. */
function offloadOf({ kvOffload, prefill }: Fleet): string {
  return kvOffload === "none" && prefill !== undefined ? "nixl" : kvOffload;
}

function tierKeys({ kvOffload, hostGib }: Fleet): readonly string[] {
  if (hostGib <= 0) return [];
  if (kvOffload === "lmcache") return [`vllm.lmcache.cpu_gib = ${hostGib}`];
  if (kvOffload === "kvbm") return [`vllm.kvbm.cpu_cache_gib = ${hostGib}`];
  return kvOffload === "hicache" ? [`sglang.hicache.size_gib = ${hostGib}`] : [];
}
