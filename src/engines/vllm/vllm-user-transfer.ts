import { fieldsOf, readJson } from "../probe-text.ts";

/** Keys that vLLM 0.32.0 takes in `--kv-transfer-config`; argparse refuses any other. */
const KNOWN_KEYS = [
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

/** Gone in 0.32 (`vllm/config/kv_transfer.py` of the wheels 0.31.0 and 0.32.0). */
const OLD_KEYS = ["kv_rank", "kv_parallel_size", "kv_ip", "kv_buffer_size"];

const KV_ROLES = ["kv_producer", "kv_consumer", "kv_both"];

/** Classes that are in no registry of vLLM: only a module path finds them. */
const NOT_IN_VLLM = ["PdConnector", "DynamoConnector"];

/**
 * What vLLM 0.32.0 and 0.33.0 refuse in a `--kv-transfer-config` that a user wrote himself: one text for each problem.
 * Connectors of other packages are unknown here, so their names are not judged.
 *
 * @param oldKeys - the installed version is older than 0.32, which still takes `kv_rank` and its like
 */
export function transferConfigProblems(text: string, oldKeys = false): string[] {
  const config = readJson(text);
  if (typeof config !== "object" || config === null || Array.isArray(config)) return ["it is no JSON object"];
  return tableProblems(fieldsOf(config), "", oldKeys ? [...KNOWN_KEYS, ...OLD_KEYS] : KNOWN_KEYS);
}

function tableProblems(config: Readonly<Record<string, unknown>>, where: string, known: readonly string[]): string[] {
  const problems: string[] = [];
  for (const key of Object.keys(config)) {
    if (!known.includes(key)) problems.push(`${where}${key} is no key of vLLM's KVTransferConfig`);
  }
  const { kv_connector: connector, kv_role: role, kv_connector_module_path: modulePath } = config;
  if (role !== undefined && !KV_ROLES.includes(String(role))) {
    problems.push(`${where}kv_role "${String(role)}" is none of ${KV_ROLES.join(", ")}`);
  }
  if (connector !== undefined && role === undefined) problems.push(`${where}kv_role is missing`);
  if (modulePath === "") problems.push(`${where}kv_connector_module_path is empty`);
  if (modulePath === undefined && NOT_IN_VLLM.includes(String(connector))) {
    problems.push(`${where}${String(connector)} is not in vLLM: it needs kv_connector_module_path`);
  }
  return [...problems, ...childProblems(config, where, known)];
}

function childProblems(config: Readonly<Record<string, unknown>>, where: string, known: readonly string[]): string[] {
  const listed = fieldsOf(config["kv_connector_extra_config"])["connectors"];
  const children = Array.isArray(listed) ? listed : [];
  return children.flatMap((child, i) => {
    const place = `${where}connectors[${i}].`;
    const fields = fieldsOf(child);
    const ownId = "engine_id" in fields ? [`${place}engine_id clashes with the one that children inherit`] : [];
    return [...ownId, ...tableProblems(fields, place, known)];
  });
}
