import type { Role } from "../../core/engine-kind.ts";
import type { KvOffload } from "../../core/kv-offload.ts";
import type { PlanWarning } from "../../core/launch-plan.ts";
import { type Arg, arg } from "../args.ts";
import type { OffloadCell } from "../engine.ts";
import { DEFAULT_HICACHE, type HicacheOptions } from "./sglang-options.ts";

const PARSER = "SGLang 0.5.23, its own argument parser and resolution";
const DISAGG = "SGLang 0.5.23, PD disaggregation, server_args disaggregation fields";
const HICACHE = "SGLang 0.5.23, HiCache, server_args memory fields";

const ACCEPTED = "SGLang accepts none, nixl and hicache";

/** Why a cell is refused, or what its render means. The one place where SGLang's dial is read, with `offloadArgs()`. */
export function sglangCell(offload: KvOffload, role: Role): OffloadCell {
  if (offload === "lmcache") {
    return refused(
      `LMCache's connector is for vLLM; SGLang's --enable-lmcache is another thing, outside this table. ${ACCEPTED}`,
    );
  }
  if (offload === "kvbm") {
    return refused(`KVBM's DynamoConnector is a vLLM connector and SGLang has no place for it. ${ACCEPTED}`);
  }
  return { supported: true, notes: NOTES[offload][role] };
}

const NOTES: Readonly<Record<"none" | "nixl" | "hicache", Readonly<Record<Role, readonly string[]>>>> = {
  none: {
    both: ["Nothing beyond the engine's own radix cache"],
    prefill: ["Hands over by mooncake, which is SGLang's default, said out loud"],
    decode: [
      "Takes over by mooncake, which is SGLang's default, said out loud; the bootstrap port is the prefill worker's",
      "SGLang turns its radix cache off on a decode worker",
    ],
  },
  nixl: {
    both: [
      "Renders nothing: a worker of role both has no transfer peer. With hicache.storage = nixl it renders HiCache with a NIXL third level",
    ],
    prefill: ["Hands over by NIXL"],
    decode: [
      "Takes over by NIXL; the bootstrap port is the prefill worker's",
      "SGLang turns its radix cache off on a decode worker",
    ],
  },
  hicache: {
    both: ["Host pool behind the device pool; hicache.storage adds a third level"],
    prefill: ["Host pool behind the device pool, and hands over by NIXL"],
    decode: [
      "Takes over by NIXL. SGLang refuses --enable-hierarchical-cache alone here: a third level (hicache.storage) is written to, else nothing more is rendered",
      "hicache.decode_radix = true keeps a radix cache with HiCache, experimental in SGLang",
    ],
  },
};

/** What the dial adds to the launch. */
export interface OffloadPart {
  readonly args: readonly Arg[];
  readonly warnings: readonly PlanWarning[];
  /** Python packages that the cell needs besides sglang. */
  readonly packages: readonly string[];
}

/** Ports of the hand-over: the prefill worker's own, and the one that a decode worker dials. */
export interface BootstrapPorts {
  readonly own: number;
  /** Undefined where no prefill worker is known. */
  readonly peer: number | undefined;
}

/** SGLang's own default of `--disaggregation-bootstrap-port`. */
export const DEFAULT_BOOTSTRAP_PORT = 8998;

/** The flags of a supported cell. */
export function offloadArgs(
  offload: KvOffload,
  role: Role,
  hicache: HicacheOptions | undefined,
  ports: BootstrapPorts,
): OffloadPart {
  const transfer = role === "both" ? EMPTY : transferPart(role, offload === "none" ? "mooncake" : "nixl", ports);
  const cache = cachePart(offload, role, hicache);
  return {
    args: [...cache.args, ...transfer.args],
    warnings: [...cache.warnings, ...transfer.warnings],
    packages: [...new Set([...transfer.packages, ...cache.packages])],
  };
}

const EMPTY: OffloadPart = { args: [], warnings: [], packages: [] };

const PACKAGES: Readonly<Record<string, string>> = { mooncake: "mooncake-transfer-engine", nixl: "nixl" };

function transferPart(role: "prefill" | "decode", backend: "mooncake" | "nixl", ports: BootstrapPorts): OffloadPart {
  const port = role === "prefill" ? ports.own : (ports.peer ?? DEFAULT_BOOTSTRAP_PORT);
  const portWhy =
    role === "prefill"
      ? "Where decode workers fetch this worker's connection data; one for each engine of a host"
      : "The prefill worker's port, dialled when a request's bootstrap_port is null: a decode worker listens on none";
  const unknown: PlanWarning = {
    code: "bootstrap-port-unknown",
    message: `No prefill worker is known here, so the bootstrap port is SGLang's default ${DEFAULT_BOOTSTRAP_PORT}`,
    remedy:
      "Nothing to do behind cgn's router, which sends the port with each request; else set prefill_bootstrap_port to the prefill worker's",
  };
  return {
    args: [
      ...arg("--disaggregation-mode", role, `The worker's role is ${role}`, DISAGG),
      ...arg("--disaggregation-transfer-backend", backend, transferWhy(backend), DISAGG),
      ...arg("--disaggregation-bootstrap-port", port, portWhy, DISAGG),
    ],
    warnings: role === "decode" && ports.peer === undefined ? [unknown] : [],
    packages: [PACKAGES[backend] ?? backend],
  };
}

function transferWhy(backend: "mooncake" | "nixl"): string {
  return backend === "nixl"
    ? "KV blocks go from prefill to decode by NIXL"
    : "SGLang's default transfer backend, written out so that both sides agree whatever the version";
}

function cachePart(offload: KvOffload, role: Role, written: HicacheOptions | undefined): OffloadPart {
  const hicache = written ?? DEFAULT_HICACHE;
  if (offload === "hicache")
    return role === "decode" ? decodeCache(hicache) : { ...hierarchical(hicache), warnings: rewrites(hicache) };
  if (offload === "nixl" && role === "both") {
    if (hicache.storage === "nixl") return { ...hierarchical(hicache), warnings: rewrites(hicache) };
    return { ...EMPTY, warnings: [...unused(written, offload, role), NOTHING_TO_TRANSFER] };
  }
  return { ...EMPTY, warnings: unused(written, offload, role) };
}

/** A decode worker: SGLang takes HiCache only beside its radix cache, and writes to a third level without either. */
function decodeCache(hicache: HicacheOptions): OffloadPart {
  const radix = arg(
    "--disaggregation-decode-enable-radix-cache",
    true,
    "hicache.decode_radix is true; experimental in SGLang",
    PARSER,
  );
  if (hicache.storage !== undefined) {
    const offload = arg(
      "--disaggregation-decode-enable-offload-kvcache",
      true,
      "Writes finished KV to the third level",
      PARSER,
    );
    // Accepted by the real parser with and without the radix flag, refused with --enable-hierarchical-cache.
    const args = [...offload, ...storageArgs(hicache), ...poolArgs(hicache), ...(hicache.decode_radix ? radix : [])];
    return { args, warnings: rewrites(hicache), packages: storagePackages(hicache) };
  }
  if (hicache.decode_radix) {
    const base = hierarchical(hicache);
    return { ...base, args: [...base.args, ...radix], warnings: rewrites(hicache) };
  }
  return { ...EMPTY, warnings: [DECODE_WITHOUT_STORAGE] };
}

function hierarchical(hicache: HicacheOptions): Omit<OffloadPart, "warnings"> {
  return {
    args: [
      ...arg("--enable-hierarchical-cache", true, "kv_offload asks for HiCache", HICACHE),
      ...poolArgs(hicache),
      ...arg("--hicache-write-policy", hicache.write_policy, "When device blocks are copied to the host", HICACHE),
      ...storageArgs(hicache),
    ],
    packages: storagePackages(hicache),
  };
}

function poolArgs(hicache: HicacheOptions): Arg[] {
  const size = hicache.size_gib;
  return [
    ...(size === undefined
      ? arg("--hicache-ratio", hicache.ratio, "Host pool as a multiple of the device pool", HICACHE)
      : arg("--hicache-size", size, "Host pool of each rank in GB; wins over the ratio", HICACHE)),
    ...arg("--hicache-io-backend", hicache.io_backend, "Written in hicache.io_backend", HICACHE),
    ...arg("--hicache-mem-layout", hicache.mem_layout, "Written in hicache.mem_layout", HICACHE),
  ];
}

function storageArgs(hicache: HicacheOptions): Arg[] {
  return arg("--hicache-storage-backend", hicache.storage, "Third cache level, written in hicache.storage", HICACHE);
}

function storagePackages(hicache: HicacheOptions): string[] {
  const name = hicache.storage === undefined ? undefined : PACKAGES[hicache.storage];
  return name === undefined ? [] : [name];
}

const NOTHING_TO_TRANSFER: PlanWarning = {
  code: "nixl-without-peer",
  message: "kv_offload = nixl renders nothing on an SGLang worker of role both: it has no peer to transfer to",
  remedy:
    'Set [agent].role to prefill or decode, or [engine.sglang.hicache].storage = "nixl" for a third cache level by NIXL',
};

const DECODE_WITHOUT_STORAGE: PlanWarning = {
  code: "hicache-idle-on-decode",
  message:
    "kv_offload = hicache adds nothing on this decode worker: SGLang refuses --enable-hierarchical-cache there without a radix cache",
  remedy:
    "Set [engine.sglang.hicache].storage for a third level, or decode_radix = true (experimental), or kv_offload = nixl",
};

function unused(written: HicacheOptions | undefined, offload: KvOffload, role: Role): PlanWarning[] {
  if (written === undefined) return [];
  const message = `[engine.sglang.hicache] has no effect with kv_offload = ${offload} and role ${role}`;
  return [{ code: "hicache-unused", message, remedy: "Set kv_offload = hicache, or remove the table" }];
}

/** Pairs that SGLang changes by itself, with a line in its log only. */
function rewrites({ mem_layout: layout, io_backend: io, storage }: HicacheOptions): PlanWarning[] {
  const warn = (message: string, remedy: string): PlanWarning[] => [{ code: "hicache-rewritten", message, remedy }];
  if (layout === "page_first_direct" && (io ?? "kernel") === "kernel") {
    return warn("SGLang changes io_backend to direct for mem_layout = page_first_direct", 'Set io_backend = "direct"');
  }
  if ((layout ?? "page_first") === "page_first" && io === "direct") {
    return warn(
      "SGLang changes mem_layout to page_first_direct for io_backend = direct",
      'Set mem_layout = "page_first_direct"',
    );
  }
  if (storage === "mooncake" && layout === "layer_first") {
    return warn("SGLang changes mem_layout to page_first for storage = mooncake", 'Set mem_layout = "page_first"');
  }
  return [];
}

function refused(reason: string): OffloadCell {
  return { supported: false, reason };
}
