import { type ChildProcess, spawn } from "node:child_process";
import { createWriteStream } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { askEventSource, startCapture } from "../src/kvcached/capture.ts";
import { type ChatTurn, createRandomChats, type RandomChatsOptions } from "./random-chats.ts";

/**
 * Capture random multi-turn chats from a real vLLM (or SGLang) on CPU, in the layout that `cgn kv verify` reads:
 *
 *     node conformance/capture-chats.ts --vllm BIN --model DIR --out DIR --scenario small-cache [--lora DIR]
 *     node conformance/capture-chats.ts --sglang PATHS --python BIN --model DIR --out DIR --scenario sglang
 *
 * `--sglang` is the PYTHONPATH of an SGLang whose kernels are stubs (conformance/python/sglang-stubs): slow, but its own cache.
 * The model's own replies are sent back. With content: the texts are made here and by a tiny model.
 */

interface Scenario {
  readonly requests: number;
  readonly concurrency: number;
  /** KV cache in blocks of 32 tokens. */
  readonly blocks: number;
  readonly chats: Omit<RandomChatsOptions, "seed">;
}

const SCENARIOS: Readonly<Record<string, Scenario>> = {
  "small-cache": { requests: 220, concurrency: 3, blocks: 90, chats: { open: 8, turns: 6, maxTokens: 24 } },
  hot: { requests: 120, concurrency: 2, blocks: 400, chats: { open: 5, turns: 8, temperatures: [1.5], maxTokens: 60 } },
  parallel: { requests: 160, concurrency: 4, blocks: 120, chats: { open: 10, turns: 6, maxTokens: 40 } },
  roots: {
    requests: 100,
    concurrency: 1,
    blocks: 120,
    chats: { open: 6, turns: 5, maxTokens: 24, salts: ["", "tenant-a", "tenant-b"], loras: ["", "", "tiny"] },
  },
  sglang: { requests: 70, concurrency: 4, blocks: 60, chats: { open: 6, turns: 4, maxTokens: 14 } },
  "sglang-one": { requests: 120, concurrency: 1, blocks: 60, chats: { open: 6, turns: 5, maxTokens: 6 } },
};

const MODEL_NAME = "smol";
const START_S = 240;

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      vllm: { type: "string" },
      model: { type: "string" },
      out: { type: "string" },
      scenario: { type: "string", default: "small-cache" },
      lora: { type: "string" },
      sglang: { type: "string" },
      python: { type: "string" },
      seed: { type: "string", default: "1" },
      port: { type: "string", default: "18310" },
      seconds: { type: "string", default: "300" },
    },
  });
  const scenario = SCENARIOS[values.scenario];
  const { vllm, sglang, python, model, out, lora } = values;
  if ((!vllm && !sglang) || !model || !out || scenario === undefined) {
    throw new Error(`Say --vllm BIN --model DIR --out DIR --scenario ${Object.keys(SCENARIOS).join("|")}`);
  }
  const port = Number(values.port);
  const engine = sglang
    ? start(python ?? "python3", sglangArgv(model, port, scenario.blocks), { PYTHONPATH: sglang }, `${out}.log`)
    : start(vllm ?? "vllm", vllmArgv(model, port, scenario.blocks, lora), {}, `${out}.log`);
  try {
    const url = `http://127.0.0.1:${port}`;
    await ready(engine, url);
    await record(url, sglang ? "sglang" : "vllm", out, scenario, Number(values.seed), Number(values.seconds));
  } finally {
    engine.kill("SIGTERM");
    await Promise.race([new Promise((done) => engine.once("exit", done)), sleep(15_000)]);
    // Its own group: the workers end with it.
    if (engine.pid !== undefined) killGroup(engine.pid);
  }
}

function vllmArgv(model: string, port: number, blocks: number, lora: string | undefined): readonly string[] {
  const events = {
    enable_kv_cache_events: true,
    publisher: "zmq",
    endpoint: `tcp://*:${port + 1}`,
    replay_endpoint: `tcp://*:${port + 2}`,
  };
  const adapter = ["--enable-lora", "--max-lora-rank", "8", "--lora-modules", `tiny=${lora}`];
  return [
    ...["serve", model, "--served-model-name", MODEL_NAME, "--host", "127.0.0.1", "--port", String(port)],
    ...["--block-size", "32", "--num-gpu-blocks-override", String(blocks), "--max-model-len", "1024"],
    ...["--enforce-eager", "--enable-prefix-caching", "--enable-prompt-tokens-details", "--max-num-seqs", "8"],
    ...["--kv-events-config", JSON.stringify(events), "--shutdown-timeout", "5"],
    ...(lora === undefined ? [] : adapter),
  ];
}

function sglangArgv(model: string, port: number, blocks: number): readonly string[] {
  const events = {
    publisher: "zmq",
    endpoint: `tcp://*:${port + 1}`,
    replay_endpoint: `tcp://*:${port + 2}`,
  };
  return [
    ...["-m", "sglang.launch_server", "--model-path", model, "--served-model-name", MODEL_NAME],
    ...["--host", "127.0.0.1", "--port", String(port), "--device", "cpu", "--attention-backend", "torch_native"],
    ...["--grammar-backend", "none", "--disable-overlap-schedule", "--sampling-backend", "pytorch"],
    ...["--page-size", "32", "--max-total-tokens", String(32 * blocks), "--context-length", "1024"],
    ...["--enable-cache-report", "--max-running-requests", "8", "--kv-events-config", JSON.stringify(events)],
  ];
}

function start(bin: string, argv: readonly string[], more: Record<string, string>, log: string): ChildProcess {
  const env = {
    ...process.env,
    ...more,
    SGLANG_USE_CPU_ENGINE: "1",
    VLLM_CPU_KVCACHE_SPACE: "1",
    VLLM_CPU_OMP_THREADS_BIND: process.env["CPUS"] ?? "0-1",
    VLLM_NO_USAGE_STATS: "1",
    PYTHONHASHSEED: "0",
    HF_HUB_OFFLINE: "1",
  };
  const child = spawn(bin, argv, { env, detached: true, stdio: ["ignore", "pipe", "pipe"] });
  const to = createWriteStream(log);
  child.stdout?.pipe(to);
  child.stderr?.pipe(to);
  return child;
}

async function ready(engine: ChildProcess, url: string): Promise<void> {
  for (let i = 0; i < START_S * 2; i++) {
    if (engine.exitCode !== null) throw new Error(`the engine ended with ${engine.exitCode} before it was ready`);
    const reply = await fetch(`${url}/health`).catch(() => undefined);
    if (reply?.ok) return;
    await sleep(500);
  }
  throw new Error(`the engine was not ready after ${START_S} s`);
}

async function record(
  url: string,
  kind: "vllm" | "sglang",
  out: string,
  scenario: Scenario,
  seed: number,
  seconds: number,
): Promise<void> {
  const source = await askEventSource(url, kind);
  const start = performance.now();
  const clock = {
    now: () => performance.now() - start,
    wall: () => Date.now(),
    after: (ms: number, run: () => void) => {
      const timer = setTimeout(run, ms);
      return () => clearTimeout(timer);
    },
  };
  const listen = { host: "127.0.0.1", port: 0 };
  const capture = await startCapture({ engine: url, ...source, out, listen, redactWith: undefined, clock });
  await sleep(1_000);
  const chats = createRandomChats({ ...scenario.chats, seed });
  let left = scenario.requests;
  const one = async () => {
    while (left-- > 0 && clock.now() < seconds * 1000) {
      const turn = chats.next();
      chats.answered(turn.chat, await ask(`http://127.0.0.1:${capture.port}`, turn));
    }
  };
  await Promise.all(Array.from({ length: scenario.concurrency }, one));
  await sleep(1_500);
  process.stdout.write(`${JSON.stringify({ ...capture.counts(), seconds: Math.round(clock.now() / 1000) })}\n`);
  await capture.close();
}

async function ask(url: string, turn: ChatTurn): Promise<string> {
  const body = {
    model: turn.lora || MODEL_NAME,
    messages: turn.messages,
    temperature: turn.temperature,
    max_tokens: turn.maxTokens,
    seed: turn.seed,
    return_token_ids: true,
    ...(turn.salt === "" ? {} : { cache_salt: turn.salt }),
  };
  const reply = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const answer = (await reply.json()) as { choices?: { message?: { content?: string } }[] };
  return answer.choices?.[0]?.message?.content ?? "";
}

function killGroup(pid: number): void {
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // It is gone already, which is what was wanted.
  }
}

await main();
