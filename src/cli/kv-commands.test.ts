import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { isCgnError } from "../core/errors.ts";
import { nodeId, workerId } from "../core/ids.ts";
import { runKvcached } from "../kvcached/daemon.ts";
import { createLog } from "../telemetry/log.ts";
import { createMetrics } from "../telemetry/metrics.ts";
import { connectKv } from "../wire/kv-client.ts";
import type { CliContext, Command, Values } from "./command.ts";
import { kvCaptureCommand } from "./kv-capture.ts";
import { kvMatchCommand } from "./kv-match.ts";
import { kvSourcesCommand } from "./kv-sources.ts";
import { kvStatsCommand } from "./kv-stats.ts";
import { kvVerifyCommand } from "./kv-verify.ts";
import { PACKAGE_ROOT } from "./places.ts";
import { systemClock } from "./system-clock.ts";

const dir = await mkdtemp(join(tmpdir(), "cgn-kv-"));
afterAll(() => rm(dir, { recursive: true }));
const uds = join(dir, "kv.sock");

async function run(command: Command, options: Values, positionals: readonly string[] = []) {
  const out: string[] = [];
  const cli: CliContext = {
    out: (text) => out.push(text),
    err: () => {},
    env: {},
    cwd: dir,
    color: false,
    signal: new AbortController().signal,
    clock: systemClock(),
  };
  const exit = await command.run({ options, positionals }, cli);
  return { exit, out: out.join("\n") };
}

describe("kv commands", () => {
  it("kv verify prints the report of a capture as JSON, and ends with 0 when all is explained", async () => {
    const capture = join(PACKAGE_ROOT, "test", "fixtures", "vllm", "sha256_cbor-seed0-int");
    const tokenizer = join(PACKAGE_ROOT, "test", "fixtures", "models", "smollm2");
    const { exit, out } = await run(kvVerifyCommand, { tokenizer, json: true }, [capture]);
    expect(exit).toBe(0);
    expect(JSON.parse(out)).toMatchObject({ requests: 16, exact: 14, explained: 2 });
    const told = await run(kvVerifyCommand, { tokenizer, agentNotices: true }, [capture]);
    expect(told.out).toBe("16 requests: 16 exact, 0 explained by the capture");
  });

  it("kv capture asks for a decision about content before it does anything", async () => {
    await expect(run(kvCaptureCommand, { engine: "http://127.0.0.1:1", out: "c" })).rejects.toThrow(/--with-content/);
    await expect(
      run(kvCaptureCommand, { engine: "http://127.0.0.1:1", out: "c", withContent: true }),
    ).rejects.toSatisfy((e) => isCgnError(e, "DEPENDENCY_UNREACHABLE"));
  });

  it("kv stats, sources and match ask a running kvcached, and say so when there is none", async () => {
    await expect(run(kvStatsCommand, { uds: "kv.sock" })).rejects.toThrow(/Start cgn-kvcached/);
    const kv = { listen: { host: "127.0.0.1", port: 0 }, uds, ramBytes: 2 ** 24, indexDir: dir, snapshotEveryMs: 0 };
    const log = createLog({ format: "json", level: "silent", write: () => {} });
    const daemon = await runKvcached(
      { kv, security: { requireMtls: false } },
      { clock: systemClock(), log, metrics: createMetrics(), env: {} },
    );
    const client = connectKv({ address: { uds }, clock: systemClock() });
    try {
      const worker = workerId("n/0");
      await client.register({
        id: worker,
        node: nodeId("n"),
        kind: "llama_cpp",
        traits: {},
        url: "http://127.0.0.1:1",
        models: ["m"],
        role: "both",
        kv: { type: "history", entries: 4 },
        tokenizer: { bytes: true },
        state: "ready",
        reason: "",
        epoch: 1,
      });
      const prompt = new TextEncoder().encode("Once upon a time there was a fox");
      daemon.service.observe({
        worker,
        epoch: 1,
        model: "m",
        root: "",
        prompt,
        promptTokens: 9,
        cachedTokens: 0,
        predictedTokens: 0,
      });
      await writeFile(join(dir, "p.txt"), "Once upon a time there was a fox that sang");
      const match = await run(kvMatchCommand, { uds, model: "m", promptFile: "p.txt", json: true });
      expect(JSON.parse(match.out)).toEqual([
        { worker, tokens: 9, blocks: 0, bytes: 32, tier: "device", source: "history" },
      ]);
      expect((await run(kvMatchCommand, { uds, model: "m", prompt: "else" })).out).toBe("no worker holds any of it");
      expect(JSON.parse((await run(kvStatsCommand, { uds, json: true })).out)).toMatchObject({
        workers: 1,
        lookups: 2,
        hits: 1,
      });
      expect((await run(kvSourcesCommand, { url: `http://127.0.0.1:${daemon.port}` })).out).toMatch(
        /^WORKER.*\nn\/0 +m +history +live/,
      );
    } finally {
      client.close();
      await daemon.close();
    }
  });
});
