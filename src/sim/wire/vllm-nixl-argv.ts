import type { ParsedArgs } from "./argparse.ts";
import { fail } from "./argparse.ts";
import { parseJson } from "./sim-flags.ts";
import type { NixlOptions } from "./vllm-transfer.ts";

const PROGRAM = "vllm serve";

type Config = Readonly<Record<string, unknown>>;

const TRANSFER_KEYS = [
  "kv_connector",
  "engine_id",
  "kv_buffer_device",
  "kv_role",
  "kv_port",
  "kv_connector_extra_config",
  "kv_connector_module_path",
  "enable_permute_local_kv",
  "kv_load_failure_policy",
];

/** The parser's own rules on `--kv-transfer-config`; which connector works is not the simulator's to say. */
export function readTransfer(args: ParsedArgs): Readonly<Record<string, unknown>> | undefined {
  const text = args.values.get("kv-transfer-config")?.[0];
  if (text === undefined) return undefined;
  const config = parseJson(PROGRAM, "kv-transfer-config", text);
  refuseKeys("kv-transfer-config", "KVTransferConfig", config, TRANSFER_KEYS);
  const roles = ["kv_producer", "kv_both", "kv_consumer"];
  const role = config["kv_role"];
  const complain = (what: string): never =>
    fail(PROGRAM, `argument --kv-transfer-config: 1 validation error for KVTransferConfig\n${what}`);
  if (role === undefined && config["kv_connector"] !== undefined) {
    complain(`  Value error, Please specify kv_role when kv_connector is set, supported roles are ${roles.join(", ")}`);
  }
  if (role !== undefined && !roles.includes(String(role))) {
    complain("kv_role\n  Input should be 'kv_producer', 'kv_both' or 'kv_consumer'");
  }
  return config;
}

/** What of it is NIXL: the connector itself, or a child of a MultiConnector or PdConnector. The simulator has no other. */
export function readNixl(
  config: Config | undefined,
  env: Readonly<Record<string, string | undefined>>,
): NixlOptions | undefined {
  if (config === undefined) return undefined;
  const found = nixlOf(config);
  if (found === undefined) return undefined;
  const port = Number(env["VLLM_NIXL_SIDE_CHANNEL_PORT"] ?? 5600);
  const role = String(found.kv_role ?? config["kv_role"] ?? "kv_both") as NixlOptions["role"];
  return {
    // A PdConnector loads through its first child only: it hands over, and takes nothing (seen on 0.32.0).
    role: config["kv_connector"] === "PdConnector" ? "kv_producer" : role,
    mode: found.kv_connector === "NixlPushConnector" ? "push" : "pull",
    engineId: String(config["engine_id"] ?? `sim-${env["VLLM_NIXL_SIDE_CHANNEL_HOST"] ?? "127.0.0.1"}-${port}`),
    host: env["VLLM_NIXL_SIDE_CHANNEL_HOST"] ?? "127.0.0.1",
    port,
    onFailure:
      (found.kv_load_failure_policy ?? config["kv_load_failure_policy"]) === "recompute" ? "recompute" : "fail",
  };
}

interface Nixl {
  readonly kv_connector: string;
  readonly kv_role?: unknown;
  readonly kv_load_failure_policy?: unknown;
}

function nixlOf(config: Config): Nixl | undefined {
  const name = config["kv_connector"];
  if (typeof name === "string" && /^Nixl(Pull|Push)?Connector$/.test(name)) return { ...config, kv_connector: name };
  const extra = config["kv_connector_extra_config"] as Config | undefined;
  const children = extra?.["connectors"];
  if (!Array.isArray(children)) return undefined;
  for (const child of children as readonly Config[]) {
    const found = nixlOf(child);
    if (found !== undefined) return found;
  }
  return undefined;
}

export function refuseKeys(
  flag: string,
  type: string,
  config: Readonly<Record<string, unknown>>,
  known: readonly string[],
): void {
  const unknown = Object.keys(config).filter((key) => !known.includes(key));
  if (unknown.length === 0) return;
  const errors = `${unknown.length} validation error${unknown.length === 1 ? "" : "s"} for ${type}`;
  fail(
    PROGRAM,
    `argument --${flag}: ${errors}\n${unknown.map((key) => `${key}\n  Unexpected keyword argument`).join("\n")}`,
  );
}
