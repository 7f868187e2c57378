import type { Code } from "../core/errors.ts";

/** One way in which engines end, as their own words tell it. */
export interface KnownCause {
  /** Short and stable: it is a metric label. */
  readonly cause: string;
  /** Looked for in the last lines; its first group that matched stands for `$1` in `what`. */
  readonly pattern: RegExp;
  readonly code: Code;
  /** What is, as the middle part of a message. */
  readonly what: string;
  /** What would be right; undefined when nobody can tell. */
  readonly remedy?: string;
  /** A second try with the same command would end the same way. */
  readonly permanent: boolean;
  /** A line that it is known by, for the test. */
  readonly example: string;
  /** Where that line is from: measured here (`seen`), or a project's issue or source. */
  readonly source: string;
}

const FREE_GPU = "end what else runs on that GPU (nvidia-smi shows it)";

/**
 * The causes, the more particular first: llama-server says "failed to load model" after it could not allocate, and vLLM's "Engine
 * core initialization failed" stands below the line that tells why.
 */
export const KNOWN_CAUSES: readonly KnownCause[] = [
  {
    cause: "port-in-use",
    pattern: /couldn't bind HTTP server socket|[Aa]ddress already in use|EADDRINUSE/,
    code: "PORT_IN_USE",
    what: "a port it needs is in use",
    remedy: "End the process that holds it, or choose other ports",
    permanent: false,
    example: "couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 8000",
    source: "llama-server b11434, seen; Python's errno 98 in every Python server",
  },
  {
    cause: "gpu-memory-taken",
    pattern: /(Free memory on device .*? is less than desired GPU memory utilization[^.]*)/,
    code: "ENGINE_EXITED",
    what: "less GPU memory is free than it may take ($1)",
    remedy: `Lower --gpu-memory-utilization in [engine.vllm].extra_args, or ${FREE_GPU}`,
    permanent: false,
    example:
      "ValueError: Free memory on device (3.22/4.0 GiB) on startup is less than desired GPU memory utilization (0.9, 3.6 GiB). Decrease",
    source: "vllm-project/vllm#25837",
  },
  {
    cause: "kv-too-small",
    pattern:
      /(max(?:imum)? seq(?:uence)? len(?:gth)? \(\d+\) is larger than the maximum number of tokens|KV cache is needed, which is larger than the available KV cache memory|No available memory for the cache blocks)/,
    code: "ENGINE_EXITED",
    what: "what is left beside the weights cannot hold one request of full length ($1)",
    remedy:
      'Set a smaller [models."NAME"].max_model_len, raise --gpu-memory-utilization, use more GPUs (tp), or smaller weights',
    permanent: true,
    example:
      "ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that can be stored in KV cache (7344).",
    source: "vllm-project/vllm#2418",
  },
  {
    cause: "gpu-memory",
    pattern: /(Not enough memory\. Please try to increase --mem-fraction-static)/,
    code: "ENGINE_EXITED",
    what: "the weights leave no memory for KV within its share of the GPU ($1)",
    remedy:
      "Raise [engine.sglang].mem_fraction_static (this is the start; for an end while it serves it would be lowered), or use more GPUs (tp)",
    permanent: true,
    example: "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
    source: "sgl-project/sglang#322, sgl-project/sglang#4330",
  },
  {
    cause: "gpu-memory",
    pattern:
      /(unable to allocate \w+ buffer|cudaMalloc failed: out of memory|failed to allocate \w+ buffer of size \d+)/,
    code: "ENGINE_EXITED",
    what: "memory does not suffice for weights or context ($1)",
    remedy: "Lower [engine.llama_cpp].n_ctx, parallel or n_gpu_layers, or take a smaller quantisation",
    permanent: false,
    example: "llama_model_load: error loading model: unable to allocate CUDA0 buffer",
    source: "ggml-org/llama.cpp#20431",
  },
  {
    cause: "gpu-memory",
    pattern: /(kIOGPUCommandBufferCallbackErrorOutOfMemory|\[metal::malloc\] Attempting to allocate \d+ bytes)/,
    code: "ENGINE_EXITED",
    what: "Metal ran out of memory ($1)",
    remedy: "Use a smaller model or shorter prompts, or raise the GPU's share: sudo sysctl iogpu.wired_limit_mb=MIB",
    permanent: false,
    example:
      "libc++abi: terminating due to uncaught exception of type std::runtime_error: [METAL] Command buffer execution failed: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)",
    source: "ml-explore/mlx#479",
  },
  {
    cause: "gpu-memory",
    pattern:
      /(CUDA out of memory|HIP out of memory|OutOfMemoryError|cudaErrorMemoryAllocation|CUDA error: out of memory)/,
    code: "ENGINE_EXITED",
    what: "GPU memory does not suffice ($1)",
    remedy: `Lower the engine's share of GPU memory, its context length or how many requests it takes at once; or ${FREE_GPU}`,
    permanent: false,
    example:
      "RuntimeError: CUDA out of memory occurred when warming up sampler with 256 dummy requests. Please try lowering `max_num_seqs`",
    source: "vllm-project/vllm#17939",
  },
  {
    cause: "memlock",
    pattern:
      /(Cannot allocate locked memory|ibv_reg_mr\S* failed|failed to mlock \d+-byte buffer|UCX\s+ERROR.*(?:register|reg_mr)[^\n]{0,60})/,
    code: "ENGINE_EXITED",
    what: "it may not lock enough memory for transfers ($1)",
    remedy: "Raise its limit: ulimit -l unlimited, LimitMEMLOCK=infinity of the unit",
    permanent: false,
    example: "ibv_reg_mr(address=0x7f) failed: Cannot allocate memory",
    source: "UCX src/uct/ib/base/ib_md.c; ggml-org/llama.cpp src/llama-mmap.cpp",
  },
  {
    cause: "host-memory",
    pattern:
      /(std::bad_alloc|DefaultCPUAllocator: can't allocate memory|^MemoryError\b|Cannot allocate memory|mmap failed: Cannot allocate|unable to mmap \d+ bytes)/m,
    code: "ENGINE_EXITED",
    what: "the host's memory does not suffice ($1)",
    remedy:
      "Lower the sizes of CPU caches and offloads, load fewer engines, or raise the memory limit of the unit or container",
    permanent: false,
    example:
      "RuntimeError: [enforce fail at alloc_cpu.cpp:117] . DefaultCPUAllocator: can't allocate memory: you tried to",
    source: "pytorch c10/core/impl/alloc_cpu.cpp, 2.x; C++ and Python runtimes",
  },
  {
    cause: "shared-memory",
    pattern:
      /(Error while creating shared memory segment|No space left on device.*\/dev\/shm|\/dev\/shm.*No space left|Bus error)/,
    code: "ENGINE_EXITED",
    what: "/dev/shm is too small for its processes to talk to each other ($1)",
    remedy: "Make /dev/shm larger (docker --shm-size or --ipc=host; a memory-backed emptyDir in Kubernetes)",
    permanent: false,
    example:
      "misc/shmutils.cc:113 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-v2jS20 (size 9637888)",
    source: "vllm-project/vllm#4383",
  },
  {
    cause: "nccl",
    pattern: /(nccl\w*Error: [^\n]{0,80}|NCCL error(?: in)?:? [^\n]{0,80}|unhandled (?:system|cuda) error)/,
    code: "ENGINE_EXITED",
    what: "its GPUs cannot talk to each other ($1)",
    remedy:
      "Start it with env NCCL_DEBUG=INFO for the reason; often /dev/shm is small, GPUs differ, or P2P is broken (NCCL_P2P_DISABLE=1)",
    permanent: false,
    example: "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970, unhandled system error",
    source: "vllm-project/vllm#4618, vllm-project/vllm#6574",
  },
  {
    cause: "gpu-fault",
    pattern:
      /(CUDA error: an illegal memory access was encountered|CUDA error: device-side assert triggered|CUDA error: unspecified launch failure|Xid \d+|uncorrectable ECC error)/,
    code: "ENGINE_EXITED",
    what: "the GPU or a kernel on it failed ($1)",
    remedy:
      "If it comes again: look at dmesg for Xid and ECC errors, and try another version or attention backend of the engine",
    permanent: false,
    example: "RuntimeError: CUDA error: an illegal memory access was encountered",
    source: "CUDA runtime API, cudaErrorIllegalAddress (700); vllm-project/vllm#19415",
  },
  {
    cause: "gpu-missing",
    pattern:
      /(No CUDA GPUs are available|CUDA driver version is insufficient for CUDA runtime version|The NVIDIA driver on your system is too old|no CUDA-capable device is detected|Failed to infer device type|invalid device ordinal|Found no NVIDIA driver)/,
    code: "ENGINE_NOT_FOUND",
    what: "it finds no GPU that it can use ($1)",
    remedy:
      "Check nvidia-smi, the engine's gpus and tp against the GPUs of this host, and that its build fits the driver",
    permanent: true,
    example: "RuntimeError: No CUDA GPUs are available",
    source: "pytorch torch/cuda/__init__.py and c10/cuda, 2.x; vLLM vllm/config (Failed to infer device type), 0.32",
  },
  {
    cause: "library-mismatch",
    pattern:
      /(undefined symbol: \S+|version `\S+' not found|libcu\w+\.so[.\d]*: cannot open shared object file|lib\w+\.so[.\d]*: cannot open shared object file|ABI version)/,
    code: "ENGINE_NOT_FOUND",
    what: "its packages were built for another PyTorch, CUDA or libc ($1)",
    remedy:
      "Install the engine into a fresh environment with the torch that it pins, and its add-ons (lmcache, nixl, flashinfer) after it",
    permanent: true,
    example: "ImportError: /site-packages/vllm/_C.abi3.so: undefined symbol: _ZN3c104cuda9SetDeviceEa",
    source: "ld.so; the form vLLM's and SGLang's users meet after a torch update",
  },
  {
    cause: "module-missing",
    pattern: /No module named ['"]?([\w.]+)|ModuleNotFoundError: .*?['"]([\w.]+)['"]/,
    code: "ENGINE_NOT_FOUND",
    what: 'the Python module "$1" is not installed',
    remedy: 'Install it into the environment of the engine\'s "binary"',
    permanent: true,
    example: "ModuleNotFoundError: No module named 'kvbm'",
    source: "vLLM 0.32 with a kvbm connector and mlx_lm, seen",
  },
  {
    cause: "arguments",
    pattern: /(unrecognized arguments?: .*|error: invalid argument: .*|error: argument .*|unknown argument: .*)/,
    code: "ENGINE_EXITED",
    what: "it refuses its arguments ($1)",
    remedy: 'Look at "cgn render" and at extra_args; the engine may be another version than expected',
    permanent: true,
    example: "vllm: error: unrecognized arguments: --disable-log-requests",
    source: "vLLM 0.32, SGLang 0.5.23 and llama-server b11434, seen",
  },
  {
    cause: "config",
    pattern:
      /(ValidationError: \d+ validation errors? for \w+[\s\S]{0,200}|HMA should not be enabled[^\n]*|Unsupported connector type: \w+)/,
    code: "ENGINE_EXITED",
    what: "it refuses its configuration ($1)",
    remedy: 'Look at "cgn render" and at extra_args; the engine may be another version than expected',
    permanent: true,
    example: "pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig",
    source: "vLLM 0.32, seen (a connector without its module path)",
  },
  {
    cause: "gated",
    pattern: /(access a gated repo|GatedRepoError|Cannot access gated repo|Access to model \S+ is restricted)/,
    code: "MODEL_NOT_FOUND",
    what: "the model's repository is gated and this host's token may not read it ($1)",
    remedy:
      'Accept the model\'s terms on the hub and give the engine a token: env.HF_TOKEN, or "hf auth login" as its user',
    permanent: true,
    example: "OSError: You are trying to access a gated repo.",
    source: "McGill-NLP/llm2vec#130, transformers src/transformers/utils/hub.py",
  },
  {
    cause: "hub",
    pattern:
      /(LocalEntryNotFoundError|couldn't connect to '?https:\/\/huggingface\.co|Max retries exceeded with url: \S+|Name or service not known|Temporary failure in name resolution|429 Client Error: Too Many Requests)/,
    code: "DEPENDENCY_UNREACHABLE",
    what: "it cannot fetch the model ($1)",
    remedy: 'Check the network or HF_ENDPOINT, or set [models."NAME"].path to a copy on this host',
    permanent: false,
    example:
      "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the cached files.",
    source: "transformers src/transformers/utils/hub.py, 5.x; huggingface_hub errors.py",
  },
  {
    cause: "model",
    pattern:
      /(is not a local folder and is not a valid model identifier|Repository Not Found|RepositoryNotFoundError|does not appear to have a file named \S+|Model architectures \[[^\]]*\] (?:are not|failed)[^\n]{0,60}|The checkpoint you are trying to load has model type|invalid magic characters|unknown model architecture: \S+|SafetensorError: [^\n]{0,80}|failed to load model)/,
    code: "MODEL_NOT_FOUND",
    what: "it cannot load the model ($1)",
    remedy:
      "Check the model's path or hf_repo, that its files are whole, and that this version of the engine knows its architecture",
    permanent: true,
    example: "srv load_model: failed to load model, '/m.gguf'",
    source: "llama-server b11434, seen; transformers and vLLM model registry",
  },
  {
    cause: "disk-full",
    pattern: /(No space left on device|ENOSPC|Disk quota exceeded)/,
    code: "STORAGE_UNUSABLE",
    what: "a disk is full ($1)",
    remedy: "Free space where the hub's cache, compile caches and SSD tiers lie (HF_HOME, ~/.cache, disk_dir)",
    permanent: false,
    example: "OSError: [Errno 28] No space left on device",
    source: "errno 28",
  },
  {
    cause: "files-limit",
    pattern: /(Too many open files|EMFILE)/,
    code: "ENGINE_EXITED",
    what: "it may not open more files ($1)",
    remedy: "Raise its limit: ulimit -n, LimitNOFILE of the unit",
    permanent: false,
    example: "OSError: [Errno 24] Too many open files",
    source: "errno 24",
  },
  {
    cause: "engine-core",
    pattern:
      /(EngineDeadError|EngineCore encountered a fatal error|Engine core initialization failed|Engine core proc \S+ died|Scheduler hit an exception|WorkerProc initialization failed|A child process died|Watchdog timeout)/,
    code: "ENGINE_EXITED",
    what: "its engine core died ($1)",
    remedy: "The first ERROR or Traceback of its log tells why",
    permanent: false,
    example: "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
    source: "vllm-project/vllm#44411, vllm-project/vllm#27508; SGLang scheduler.py",
  },
];
