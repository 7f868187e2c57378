import { createServer } from "node:net";
import { describe, expect, it } from "vitest";
import { findPortHolder, isPortFree, programName } from "./port-holder.ts";

describe("programName()", () => {
  it.each([
    [["/usr/bin/python3.12", "-u", "/venv/bin/vllm", "serve"], "python3", "python3.12 vllm"],
    [["/opt/node", "--test", "cgn.ts", ""], "MainThread", "node cgn.ts"],
    [["nginx: master process /usr/sbin/nginx"], "nginx", "nginx"],
    [["/usr/bin/llama-server", "--port", "1"], "llama-server", "llama-server"],
    [["VLLM::EngineCore"], "VLLM::EngineCor", "VLLM::EngineCore"],
    [[""], "kthread", "kthread"],
  ])("calls %j %s", (words, comm, name) => {
    expect(programName(words, comm)).toBe(name);
  });
});

describe("findPortHolder()", () => {
  it("finds this process by a port that it listens on", async () => {
    const server = createServer();
    const port = await new Promise<number>((resolve) =>
      server.listen(0, "127.0.0.1", () => resolve((server.address() as { port: number }).port)),
    );
    try {
      expect(await isPortFree("127.0.0.1", port)).toBe(false);
      expect(await findPortHolder(port)).toMatchObject({ pid: process.pid });
    } finally {
      await new Promise((resolve) => server.close(resolve));
    }
  });
});
