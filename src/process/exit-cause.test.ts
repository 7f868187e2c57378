import { describe, expect, it } from "vitest";
import { exitCause } from "./exit-cause.ts";
import { KNOWN_CAUSES } from "./exit-causes.ts";

describe("exitCause()", () => {
  it.each(KNOWN_CAUSES.map((known) => [known.cause, known.example, known] as const))(
    "recognises %s in %j",
    (_cause, example, known) => {
      const found = exitCause({ code: 1 }, ["INFO starting", example, "INFO bye"]);
      expect(found).toMatchObject({ cause: known.cause, code: known.code, permanent: known.permanent });
      expect(found.what).not.toContain("$1");
      expect(known.source).not.toBe("");
    },
  );

  // More of the engines' own words for the same causes, with where they are from.
  it.each([
    // llama-server b11434, seen.
    ["error: invalid argument: --x", 1, "arguments"],
    ["OSError: [Errno 98] Address already in use", 1, "port-in-use"],
    ["/usr/bin/python3: No module named mlx_lm", 1, "module-missing"],
    ["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", 1, "gpu-memory"],
    ["(APIServer) vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue", 0, "engine-core"],
    // vLLM 0.32, seen: a child connector without its module path.
    [
      "ValidationError: 1 validation error for VllmConfig\n  Value error, Unsupported connector type: PdConnector",
      1,
      "config",
    ],
    // vllm-project/vllm, v1/core/kv_cache_utils.py.
    [
      "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
      1,
      "kv-too-small",
    ],
    [
      "ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is needed, which is larger than the available KV cache memory (8.1 GiB).",
      1,
      "kv-too-small",
    ],
    // ggml-org/llama.cpp#20431.
    [
      "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 144817.04 MiB on device 0: cudaMalloc failed: out of memory",
      1,
      "gpu-memory",
    ],
    // vllm-project/vllm#6574.
    ["ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.", 1, "nccl"],
    ["nothing that we know", 1, "exit"],
  ])("reads %j", (line, code, cause) => {
    expect(exitCause({ code }, ["INFO starting", line, "INFO bye"])).toMatchObject({ cause });
  });

  it("takes the particular cause above the general one that follows from it", () => {
    const vllm = [
      "(EngineCore pid=7) ERROR 09-28 15:47:24 torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1 GiB",
      "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
    ];
    expect(exitCause({ code: 1 }, vllm).cause).toBe("gpu-memory");
    const llama = ["llama_model_load: error loading model: unable to allocate CPU buffer", "failed to load model"];
    expect(exitCause({ code: 1 }, llama)).toMatchObject({ cause: "gpu-memory", permanent: false });
  });

  it("does not blame what an engine only warned of", () => {
    // Broke: vLLM warns of modules that it can do without, and the end was then called permanent.
    const tail = ["WARNING 11-29 10:00:00 [interface.py:222] Failed to import from vllm._C: No module named 'vllm._C'"];
    expect(exitCause({ code: 1 }, tail)).toMatchObject({ cause: "exit", permanent: false });
  });

  it("believes the kernel's count of out-of-memory kills, but not above a cause of the engine's own", () => {
    const core = ["vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue"];
    expect(exitCause({ code: 0 }, core, 1).cause).toBe("oom-killed");
    expect(exitCause({ signal: "SIGKILL" }, [], 1).cause).toBe("oom-killed");
    expect(exitCause({ code: 137 }, [], 1).what).toContain("out-of-memory killer");
    expect(exitCause({ code: 1 }, ["ModuleNotFoundError: No module named 'x'"], 1).cause).toBe("module-missing");
  });

  it("tells a kill, a command that cannot be run, and a plain end", () => {
    expect(exitCause({ signal: "SIGKILL" }, [])).toMatchObject({ cause: "killed", what: "it was killed (SIGKILL)" });
    expect(exitCause({ code: 127 }, [])).toMatchObject({ code: "ENGINE_NOT_FOUND", permanent: true });
    expect(exitCause({ signal: "SIGSEGV" }, []).what).toBe("it ended by SIGSEGV");
    expect(exitCause({}, []).what).toBe("it ended");
  });

  it("names the module and the argument", () => {
    expect(exitCause({ code: 1 }, ["ModuleNotFoundError: No module named 'kvbm.vllm'"]).what).toContain('"kvbm.vllm"');
    expect(exitCause({ code: 1 }, ["error: invalid argument: --zz"]).what).toContain("--zz");
  });
});
