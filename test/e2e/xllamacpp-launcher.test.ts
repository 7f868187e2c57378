import { spawn } from "node:child_process";
import { createServer } from "node:net";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { ensureRealEngine, type RealEngine } from "../../src/cli/demo/real-engine.ts";
import { cacheDir, LAUNCHERS } from "../../src/cli/places.ts";

/** The starter of `npm test` says whether Python and the wheels are there. */
const HERE = process.env["CGN_REAL_ENGINE"] === "1";

interface Ended {
  readonly code: number | null;
  readonly signal: string | null;
  readonly said: string;
}

describe.skipIf(!HERE)("launchers/xllamacpp_server.py", () => {
  let engine: RealEngine;
  beforeAll(async () => {
    engine = await ensureRealEngine(cacheDir(process.env), process.env, new AbortController().signal);
  }, 90_000);

  /** Run to the end; at the first sight of `stopAt` in its log, `stop` gets the process id. */
  function run(args: readonly string[], stopAt?: string, stop?: (pid: number) => void): Promise<Ended> {
    return new Promise((resolve, reject) => {
      const child = spawn(engine.python, [join(LAUNCHERS, "xllamacpp_server.py"), ...args], {
        stdio: ["ignore", "pipe", "pipe"],
      });
      const deadline = setTimeout(() => child.kill("SIGKILL"), 30_000);
      let said = "";
      let stopped = false;
      const read = (chunk: Buffer): void => {
        said += chunk.toString();
        if (stopAt === undefined || stopped || !said.includes(stopAt)) return;
        stopped = true;
        stop?.(child.pid as number);
      };
      child.stdout.on("data", read);
      child.stderr.on("data", read);
      child.on("error", reject);
      child.on("close", (code, signal) => {
        clearTimeout(deadline);
        resolve({ code, signal, said });
      });
    });
  }

  it("exits 2 for a flag that it does not know, and names it", async () => {
    const ended = await run(["--model", engine.gguf, "--no-such-flag", "1"]);
    expect(ended.code).toBe(2);
    expect(ended.said).toContain("unrecognized arguments: --no-such-flag 1");
  });

  it("exits 1 for a missing and for a broken model, and tells them apart", async () => {
    const missing = await run(["--model", "/no/such/model.gguf", "--port", "1"]);
    expect([missing.code, missing.said]).toEqual([
      1,
      expect.stringContaining('failed to load model "/no/such/model.gguf"'),
    ]);
    const broken = await run(["--model", join(LAUNCHERS, "xllamacpp_server.py"), "--port", "1"]);
    expect([broken.code, broken.said]).toEqual([1, expect.stringContaining("not a GGUF file")]);
  });

  it("exits 1 when its port is in use, and says which", async () => {
    const { port, close } = await listening();
    const ended = await run(["--model", engine.gguf, "--port", String(port)]);
    await close();
    expect([ended.code, ended.said]).toEqual([1, expect.stringContaining(`127.0.0.1:${port}: address already in use`)]);
  });

  it("exits 0 within a second of SIGTERM, an open stream or not", async () => {
    const { port, close } = await listening();
    await close();
    let sentAt = 0;
    const ended = await run(
      [
        "--model",
        engine.gguf,
        "--alias",
        "m",
        "--port",
        String(port),
        "--ctx-size",
        "2048",
        "--threads",
        "1",
        "--metrics",
      ],
      "ready on",
      async (pid) => {
        await firstChunk(port);
        sentAt = performance.now();
        process.kill(pid, "SIGTERM");
      },
    );
    expect(ended).toMatchObject({ code: 0, signal: null });
    expect(performance.now() - sentAt).toBeLessThan(4_000);
  });
});

/** Start an endless stream, and return with its first bytes. */
async function firstChunk(port: number): Promise<void> {
  const response = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      stream: true,
      ignore_eos: true,
      max_tokens: 2_000,
      messages: [{ role: "user", content: "Count." }],
    }),
  });
  const reader = response.body?.getReader();
  await reader?.read();
  // The process is about to end under it.
  void reader?.read().catch(() => {});
}

/** A listener on a free loopback port. */
function listening(): Promise<{ readonly port: number; close(): Promise<void> }> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const address = server.address();
      const port = typeof address === "object" && address !== null ? address.port : 0;
      resolve({ port, close: () => new Promise((done) => void server.close(() => done())) });
    });
  });
}
