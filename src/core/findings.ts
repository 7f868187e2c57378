import type { Code } from "./errors.ts";

interface FindingRow {
  /** The error that a start ends with when this keeps it from starting. */
  readonly error: Code;
  /** What it is about, for the documentation. */
  readonly about: string;
  /** What mends it, for the documentation. */
  readonly mend: string;
}

/**
 * Everything that a look at a host and at engines that work together can find. Closed table: each row has a heading in
 * docs/errors.md, and a test compares the two.
 */
export const FINDINGS = {
  "engine-missing": {
    error: "ENGINE_NOT_FOUND",
    about: "The engine's program is not in PATH, is no executable file, or names an interpreter that is gone",
    mend: 'Install the engine, or set "binary" in its section to the full path of the program',
  },
  "package-missing": {
    error: "ENGINE_NOT_FOUND",
    about: "A Python package that the engine, or the chosen `kv_offload`, needs is not installed beside the engine",
    mend: "Install it into the engine's own Python",
  },
  "packages-unknown": {
    error: "ENGINE_NOT_FOUND",
    about: "The engine's Python did not tell within 30 s which packages it has, or fails: nothing of them was checked",
    mend: "Run that Python by hand, or try again when this host has less to do",
  },
  "package-version": {
    error: "NOT_SUPPORTED",
    about: "A package that the chosen `kv_offload` needs has another version than those that cgn renders for",
    mend: "Install a version in the range",
  },
  "bad-versions": {
    error: "NOT_SUPPORTED",
    about: "Versions that are installed together are known to fail, or to answer wrongly",
    mend: "Install the other version that is named",
  },
  "gpu-missing": {
    error: "NOT_SUPPORTED",
    about: "The engine's build computes on a GPU and this host shows none",
    mend: 'Install the driver, give the container its GPUs, or set `[agent].platform = "cpu"` with a build for the CPU',
  },
  "gpu-index": {
    error: "NOT_SUPPORTED",
    about: "`gpus` or `gpu_index` names a GPU that this host does not have",
    mend: "Name GPUs that `nvidia-smi -L` lists",
  },
  "gpu-count": {
    error: "NOT_SUPPORTED",
    about: "`tp` needs more GPUs than this host has",
    mend: "Lower `tp`, or use a host with more GPUs",
  },
  "gpu-shared": {
    error: "NOT_SUPPORTED",
    about: "Two files of one host give the same GPU to different engines",
    mend: "Give each engine GPUs of its own",
  },
  "gpu-memory": {
    error: "NOT_SUPPORTED",
    about: "The model's weights do not fit the GPUs that it gets, or other processes hold the memory now",
    mend: "Raise `tp`, use a smaller or quantised model, or free the GPU",
  },
  "host-memory": {
    error: "NOT_SUPPORTED",
    about:
      "The offload caches (and models in memory) of this file's engines need more memory than the host, or its cgroup, has",
    mend: "Lower the sizes, or give the container more memory",
  },
  "shared-memory": {
    error: "NOT_SUPPORTED",
    about: "`/dev/shm` is smaller than what tensor-parallel ranks, NIXL and UCX put there",
    mend: "Enlarge it: `--shm-size` or `--ipc=host` for a container, a remount otherwise",
  },
  "locked-memory": {
    error: "NOT_SUPPORTED",
    about: "The limit on locked memory (`ulimit -l`) keeps NIXL and UCX from registering memory for RDMA",
    mend: "`LimitMEMLOCK=infinity` in the unit, `--ulimit memlock=-1` for a container, `limits.conf` otherwise",
  },
  "port-in-use": {
    error: "PORT_IN_USE",
    about: "Another process listens on a port of the plan",
    mend: "End it, or choose another port",
  },
  "engine-kept": {
    error: "PORT_IN_USE",
    about:
      "An engine that an earlier agent left running (`[agent].keep_engines`) is not in this file as it runs, is another node's, or in the care of an agent that runs",
    mend: "Nothing: `cgn agent` ends those of its node first. `cgn agent --end-kept` ends them now",
  },
  "model-missing": {
    error: "MODEL_NOT_FOUND",
    about:
      "The model's file or folder is not there or cannot be read, or a hub model is not downloaded and the hub is off",
    mend: 'Correct `[models."NAME"].path`, or download it',
  },
  "model-incomplete": {
    error: "MODEL_NOT_FOUND",
    about:
      "The model's folder has no `config.json` or no weights, or its weights are Git LFS pointers or half a download",
    mend: "Download it again in full",
  },
  "model-not-downloaded": {
    error: "MODEL_NOT_FOUND",
    about: "The model is a name on the hub and not in this host's cache: the engine downloads it at its first start",
    mend: "Download it before, so that the start stays within `ready_timeout`",
  },
  "file-missing": {
    error: "STORAGE_UNUSABLE",
    about: "A file that a variable names for the engine is not there",
    mend: "Correct the variable, or unset it",
  },
  "disk-space": {
    error: "STORAGE_UNUSABLE",
    about: "The folder of a disk cache has less room than the cache may take",
    mend: "Lower the size, or name a folder on another disk",
  },
  "disk-unwritable": {
    error: "STORAGE_UNUSABLE",
    about: "The folder of a disk cache cannot be made or written",
    mend: "Give it the rights, or name another",
  },
  "hash-seed": {
    error: "NOT_SUPPORTED",
    about: "Engines whose blocks must have the same names run with different `PYTHONHASHSEED`",
    mend: "Start all of them with `PYTHONHASHSEED=0`, as cgn does",
  },
  "peer-address": {
    error: "CONFIG_INVALID",
    about: "The address at which prefill and decode peers reach this engine is loopback, a wildcard or not this host's",
    mend: "Set `[agent].peer_address` to an address of this host that they reach",
  },
  "variable-refused": {
    error: "CONFIG_INVALID",
    about: "A variable of the environment makes the engine refuse its configuration",
    mend: "Unset it",
  },
  "pair-engine": {
    error: "CONFIG_INVALID",
    about:
      "Prefill and decode engines of one model are of different kinds, or have no partner, or hand over by different means",
    mend: "Use the same engine, kind and `kv_offload` family on both sides",
  },
  "pair-model": {
    error: "CONFIG_INVALID",
    about: "Prefill and decode load the model by different names or with different types: the hand-over compares both",
    mend: "Write the same `path` or `hf_repo`, and the same `dtype`",
  },
  "pair-block-size": {
    error: "CONFIG_INVALID",
    about: "Prefill and decode have different block or page sizes: every hand-over fails, or the text is wrong",
    mend: "Write the same `[kv].block_size_tokens` for both",
  },
  "pair-tp": {
    error: "CONFIG_INVALID",
    about: "Prefill and decode have different `tp`",
    mend: "Write the same `tp` for both",
  },
  "pair-version": {
    error: "NOT_SUPPORTED",
    about: "Prefill and decode are of different versions, which the hand-over compares",
    mend: "Install the same version on both sides",
  },
} as const satisfies Record<string, FindingRow>;

export type FindingCode = keyof typeof FINDINGS;

/** One thing that was found. */
export interface Finding {
  readonly code: FindingCode;
  /** An error keeps the engine from starting or from working; a warning may be meant. */
  readonly severity: "error" | "warning";
  /** What is. */
  readonly what: string;
  /** What would be right. */
  readonly remedy: string;
  /** Dotted keys that may be to blame, the likeliest first. Empty: the host is. */
  readonly keys: readonly string[];
  /** A command of this host's shell that would mend it. Never run by cgn. */
  readonly fix?: string;
}
