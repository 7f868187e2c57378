import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { createMemoryDirectory } from "../cluster/memory-directory.ts";
import { SILENT_LOG } from "../core/log.ts";
import { ENGINES } from "../engines/registry.ts";
import { parseEngineSpec } from "./engine-spec.ts";
import { watchEngines } from "./engine-watch.ts";
import { realClock } from "./testing/test-router.ts";

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

/** Answers by path; what is not listed is 404. */
async function answering(paths: Readonly<Record<string, unknown>>, port = 0): Promise<{ url: string; server: Server }> {
  const server = createServer((req, res) => {
    const body = paths[req.url ?? ""];
    res.writeHead(body === undefined ? 404 : 200);
    res.end(typeof body === "string" ? body : JSON.stringify(body ?? {}));
  });
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  closers.push(() => {
    server.close();
    server.closeAllConnections();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server };
}

function watch(text: string) {
  const directory = createMemoryDirectory();
  const specs = [parseEngineSpec(text)];
  const watched = watchEngines({ specs, engines: ENGINES, directory, clock: realClock, log: SILENT_LOG });
  closers.push(() => watched.close());
  return { directory, watched };
}

const VLLM = {
  "/version": { version: "0.32.0" },
  "/health": "",
  "/v1/models": { object: "list", data: [{ id: "m", max_model_len: 4096 }] },
  "/metrics": 'vllm:cache_config_info{block_size="32",num_gpu_blocks="10"} 1\n',
  "/kv_event_sources": {
    "0": { enable_kv_cache_events: true, endpoint: "tcp://*:5557", replay_endpoint: "tcp://*:5558", topic: "" },
  },
};

describe("watchEngines()", () => {
  it("asks a vLLM what it is", async () => {
    const { url } = await answering(VLLM);
    const { directory, watched } = watch(url);
    await watched.first;
    expect(directory.list()[0]).toMatchObject({
      kind: "vllm",
      models: ["m"],
      state: "ready",
      blockTokens: 32,
      maxModelTokens: 4096,
      traits: { usageOnlyWhenAsked: true },
      kv: { type: "events", endpoint: "tcp://127.0.0.1:5557", replay: "tcp://127.0.0.1:5558" },
    });
  });

  // A router in front of two simulators said "no tokenizer is known" and predicted nothing.
  it("learns from a simulator that its vocabulary is built in, and from nobody else", async () => {
    const simulated = await answering({ ...VLLM, "/version": { version: "0.32.0", simulated: true } });
    const sglang = await answering({
      "/server_info": { version: "0.5.23", simulated: true },
      "/v1/models": VLLM["/v1/models"],
    });
    const real = await answering(VLLM);
    const tokenizer = async (text: string) => {
      const { directory, watched } = watch(text);
      await watched.first;
      return directory.list()[0]?.tokenizer;
    };
    expect(await tokenizer(simulated.url)).toEqual({ bytes: true });
    expect(await tokenizer(sglang.url)).toEqual({ bytes: true });
    expect(await tokenizer(`${simulated.url},tokenizer=/models/m`)).toEqual({ dir: "/models/m" });
    expect(await tokenizer(real.url)).toEqual({});
  });

  it("asks a llama.cpp server, and takes the client's name for its model", async () => {
    const { url } = await answering({
      "/health": { status: "ok" },
      "/props": { chat_template: "{{ messages }}", build_info: "b0-unknown" },
      "/v1/models": { data: [{ id: "smollm2" }] },
    });
    const { directory, watched } = watch(`${url},model=chat`);
    await watched.first;
    expect(directory.list()[0]).toMatchObject({
      kind: "llama_cpp",
      models: ["chat"],
      upstreamModel: "smollm2",
      state: "ready",
      kv: { type: "history" },
    });
  });

  it("takes what it does not know for any OpenAI server", async () => {
    const { url } = await answering({ "/v1/models": { data: [{ id: "x" }] } });
    const { directory, watched } = watch(url);
    await watched.first;
    expect(directory.list()[0]).toMatchObject({ kind: "openai_compat", models: ["x"], state: "ready" });
  });

  it("says down while nobody listens, and gives a new epoch to what comes back", async () => {
    const { url, server } = await answering(VLLM);
    const { directory, watched } = watch(url);
    await watched.first;
    const state = () => directory.list()[0];
    const before = state()?.epoch ?? 0;
    // A router that is restarted must not fall behind what a kvcached elsewhere remembers.
    expect(before).toBeGreaterThan(1_700_000_000);
    const reached = (wanted: string) =>
      new Promise<void>((resolve) => {
        const end = directory.subscribe(([worker]) => {
          if (worker?.state !== wanted) return;
          end();
          resolve();
        });
      });
    server.closeAllConnections();
    server.close();
    await reached("down");
    expect(state()?.reason).toBe("connection refused");
    const back = reached("ready");
    await answering(VLLM, Number(new URL(url).port));
    await back;
    expect(state()?.epoch).toBeGreaterThan(before);
  });
});
