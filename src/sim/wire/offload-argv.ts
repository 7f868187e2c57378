import { GIB } from "../../core/units.ts";
import type { OffloadRoom } from "../model/offload-tiers.ts";
import { fail, type ParsedArgs } from "./argparse.ts";

type Env = Readonly<Record<string, string | undefined>>;
type Config = Readonly<Record<string, unknown>>;

/** LMCache 0.5.6 (lmcache/v1/config.py): `max_local_cpu_size` where nothing is written; a GB is 2^30 bytes there. */
const LMCACHE_GIB = 5;
/** A third level tells no size on the engine's command line. */
const STORAGE_GIB = 1024;
/** HiCache's host pool is so many times the device's (`--hicache-ratio`, SGLang 0.5.23). */
const HICACHE_RATIO = 2;

/** Where a vLLM with this command line and environment keeps blocks besides its device; undefined: nowhere. */
export function readVllmOffload(
  program: string,
  args: ParsedArgs,
  env: Env,
  transfer: Config | undefined,
): OffloadRoom | undefined {
  return resized(program, args, connectorRoom(args, env, transfer));
}

function connectorRoom(args: ParsedArgs, env: Env, transfer: Config | undefined): OffloadRoom | undefined {
  const names = transfer === undefined ? [] : connectorsOf(transfer);
  const size = Number(args.values.get("kv-offloading-size")?.[0] ?? 0);
  if (names.includes("DynamoConnector")) {
    const gib = { host: numberOf(env, "DYN_KVBM_CPU_CACHE_GB"), disk: numberOf(env, "DYN_KVBM_DISK_CACHE_GB") };
    return { gib, blocksStep: false, write: "through" };
  }
  if (names.includes("LMCacheConnectorV1")) {
    const disk = env["LMCACHE_LOCAL_DISK"] === undefined ? 0 : numberOf(env, "LMCACHE_MAX_LOCAL_DISK_SIZE");
    const cpu = /^false$/i.test(env["LMCACHE_LOCAL_CPU"] ?? "")
      ? 0
      : numberOf(env, "LMCACHE_MAX_LOCAL_CPU_SIZE", LMCACHE_GIB);
    return { gib: { host: cpu, disk }, blocksStep: true, write: "through" };
  }
  // Its server beside the engine says how much it keeps; that is not on the engine's command line.
  if (names.includes("LMCacheMPConnector"))
    return { gib: { host: size > 0 ? size : LMCACHE_GIB }, blocksStep: false, write: "through" };
  return size > 0 ? { gib: { host: size }, blocksStep: false, write: "through" } : undefined;
}

/** Where an SGLang keeps blocks besides its device (HiCache, or LMCache in its place); undefined: nowhere. */
export function readSglangOffload(program: string, args: ParsedArgs, deviceBytes: number): OffloadRoom | undefined {
  const text = (name: string): string | undefined => args.values.get(name)?.[0];
  if (args.values.has("enable-lmcache"))
    return resized(program, args, { gib: { host: LMCACHE_GIB }, blocksStep: true, write: "through" });
  if (!args.values.has("enable-hierarchical-cache")) return resized(program, args, undefined);
  // Decimal GB per rank.
  const size = Number(text("hicache-size") ?? 0) * 1e9;
  const bytes = size > 0 ? size : deviceBytes * Number(text("hicache-ratio") ?? HICACHE_RATIO);
  const policy = text("hicache-write-policy");
  const storage = text("hicache-storage-backend");
  const third = storage === undefined ? {} : { [storage === "file" ? "disk" : "shared"]: STORAGE_GIB };
  const write = policy === "write_back" ? "evicted" : policy === "write_through_selective" ? "reused" : "through";
  return resized(program, args, { gib: { host: bytes / GIB, ...third }, blocksStep: false, write });
}

/** `--sim-host-gib` and `--sim-disk-gib` say other sizes. @throws CgnError BAD_INVOCATION where nothing would use them */
function resized(program: string, args: ParsedArgs, room: OffloadRoom | undefined): OffloadRoom | undefined {
  const given = (["host", "disk"] as const).flatMap((name) => {
    const text = args.values.get(`sim-${name}-gib`)?.[0];
    if (text === undefined) return [];
    const flag = `argument --sim-${name}-gib`;
    if (!(Number(text) >= 0)) fail(program, `${flag}: must be at least 0`);
    if (room === undefined) fail(program, `${flag}: this engine keeps blocks on its device only. Add an offload`);
    return [[name, Number(text)] as const];
  });
  return room === undefined ? undefined : { ...room, gib: { ...room.gib, ...Object.fromEntries(given) } };
}

/** Names of the connector and of those inside it. */
function connectorsOf(config: Config): readonly string[] {
  const extra = config["kv_connector_extra_config"] as Config | undefined;
  const children = extra?.["connectors"];
  const own = typeof config["kv_connector"] === "string" ? [config["kv_connector"]] : [];
  return Array.isArray(children) ? [...own, ...children.flatMap((child: Config) => connectorsOf(child))] : own;
}

function numberOf(env: Env, name: string, otherwise = 0): number {
  const value = Number(env[name] ?? otherwise);
  return Number.isFinite(value) ? Math.max(0, value) : 0;
}
