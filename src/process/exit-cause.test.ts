import { describe, expect, it } from "vitest";
import { exitCause } from "./exit-cause.ts";

describe("exitCause()", () => {
  // In the engines' words; which of them were seen on running engines stands in exit-cause.ts.
  it.each([
    ["error: invalid argument: --x", 1, "arguments", true],
    ["vllm: error: unrecognized arguments: --disable-log-requests", 2, "arguments", true],
    ["srv load_model: failed to load model, '/m.gguf'", 1, "model", true],
    ["couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 8000", 1, "port-in-use", false],
    ["OSError: [Errno 98] Address already in use", 1, "port-in-use", false],
    ["/usr/bin/python3: No module named mlx_lm", 1, "module-missing", true],
    ["ModuleNotFoundError: No module named 'kvbm'", 1, "module-missing", true],
    ["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", 1, "gpu-memory", false],
    ["(APIServer) vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue", 0, "engine-core", false],
    ["nothing that we know", 1, "exit", false],
  ])("reads %j", (line, code, cause, permanent) => {
    expect(exitCause({ code }, ["INFO starting", line, "INFO bye"])).toMatchObject({ cause, permanent });
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
