import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { createMemoryDirectory } from "../cluster/memory-directory.ts";
import type { Clock } from "../core/clock.ts";
import { type Log, SILENT_LOG } from "../core/log.ts";
import type { WorkerInfo } from "../core/worker.ts";
import { ENGINES } from "../engines/registry.ts";
import { parseEngineSpec } from "./engine-spec.ts";
import { watchEngines } from "./engine-watch.ts";
import { realClock } from "./testing/test-router.ts";

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

/** Answers by path; what is not listed is 404. @param cut paths that get no answer */
async function answering(
  paths: Readonly<Record<string, unknown>>,
  port = 0,
  cut: readonly string[] = [],
): Promise<{ url: string; server: Server }> {
  const server = createServer((req, res) => {
    if (cut.includes(req.url ?? "")) return void req.socket.destroy();
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

/** The looks of an engine in quick succession. */
const quickClock: Clock = { ...realClock, after: (ms, then) => realClock.after(ms / 50, then) };

function watch(text: string, clock: Clock = realClock) {
  const directory = createMemoryDirectory();
  const specs = [parseEngineSpec(text)];
  const watched = watchEngines({ specs, engines: ENGINES, directory, clock, log: SILENT_LOG });
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

describe("watchEngines()", { timeout: 90_000 }, () => {
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
    const tokenizer = async (text: string, said: (worker: WorkerInfo) => boolean = () => true) => {
      const { directory, watched } = watch(text);
      await watched.first;
      // On a busy host a question may go unanswered, and is asked again.
      while (!directory.list().some(said)) await new Promise<void>((resolve) => directory.subscribe(() => resolve()));
      return directory.list()[0]?.tokenizer;
    };
    const hasBytes = ({ tokenizer: { bytes } }: WorkerInfo) => bytes === true;
    expect(await tokenizer(simulated.url, hasBytes)).toEqual({ bytes: true });
    expect(await tokenizer(sglang.url, hasBytes)).toEqual({ bytes: true });
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

  // Seen: under load the side probes timed out once, and an engine lost its kind, its events and its vocabulary.
  it("keeps what an engine said of itself when it does not say it again, and asks again", async () => {
    const paths: Record<string, unknown> = { ...VLLM, "/version": { version: "0.32.0", simulated: true } };
    const { url, server } = await answering(paths);
    const { directory, watched } = watch(url, quickClock);
    await watched.first;
    const known = directory.list()[0]!;
    const { port } = new URL(url);
    const reached = (holds: (worker: WorkerInfo) => boolean) =>
      new Promise<WorkerInfo>((resolve) => {
        const end = directory.subscribe(([worker]) => {
          if (worker === undefined || !holds(worker)) return;
          end();
          resolve(worker);
        });
      });
    const down = reached(({ state }) => state === "down");
    server.closeAllConnections();
    server.close();
    await down;
    const cut = ["/version", "/metrics", "/kv_event_sources"];
    const back = reached(({ state }) => state === "ready");
    const again = await answering(paths, Number(port), cut);
    const now = await back;
    expect({ ...now, epoch: 0 }).toEqual({ ...known, epoch: 0 });
    expect(now).toMatchObject({ kind: "vllm", tokenizer: { bytes: true }, kv: { type: "events" }, blockTokens: 32 });
    // What it says, when it says it, counts.
    const changed = reached(({ blockTokens }) => blockTokens === 64);
    paths["/metrics"] = 'vllm:cache_config_info{block_size="64",num_gpu_blocks="10"} 1\n';
    cut.length = 0;
    expect(await changed).toMatchObject({ state: "ready", epoch: now.epoch });
    again.server.closeAllConnections();
  });

  it("says once that a configured engine is down, and does not call it adopted", async () => {
    const { url, server } = await answering({});
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    const said: string[] = [];
    const log: Log = { ...SILENT_LOG, info: (message) => said.push(message), warn: (message) => said.push(message) };
    const directory = createMemoryDirectory();
    const specs = [parseEngineSpec(`${url},kind=vllm,model=m`)];
    const looks: (() => void)[] = [];
    const after: Clock["after"] = (_ms, then) => {
      looks.push(then);
      return () => {};
    };
    const clock = { ...realClock, after };
    const watched = watchEngines({ specs, engines: ENGINES, directory, clock, log });
    closers.push(() => watched.close());
    await watched.first;
    for (let k = 0; k < 3; k++) {
      const next = looks.length + 1;
      looks.at(-1)!();
      while (looks.length < next) await new Promise((resolve) => setImmediate(resolve));
    }
    expect(said).toEqual(["Engine is down"]);
    expect(directory.list()[0]).toMatchObject({ state: "down", reason: "it does not answer" });
  });
});
