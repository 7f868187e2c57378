import { type ChildProcess, spawn } from "node:child_process";
import { createWriteStream, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { findEngine } from "../src/engines/registry.ts";
import { askEventSource, startCapture } from "../src/kvcached/capture.ts";
import { type Capture, readCapture } from "../src/kvcached/capture-rows.ts";
import { checkingTools } from "../src/kvcached/checking-tools.ts";
import { verifyCapture } from "../src/kvcached/verify.ts";
import { createVocabularies } from "../src/kvcached/vocabularies.ts";
import { createPrefixIndex } from "../src/kvindex/run-index.ts";
import { readModel } from "../src/modelfiles/read-model.ts";
import { ChainChecker } from "../src/prompt/chain-checker.ts";
import { freePorts } from "./live/agent-run.ts";
import { type ChatTurn, createRandomChats } from "./random-chats.ts";

/**
 * Is what the router predicts what a real vLLM then reports? `cgn up` starts vLLM on a CPU with a small cache; random
 * shared-prefix chats go through the router; each decision's prediction is compared with the engine's figure. Every miss must be
 * explained by the router itself (`cgn explain`): by an event that was still on its way. A capture is made beside it, whose
 * own replay says the same of most of them.
 */
export interface LivePredictionOptions {
  /** The `vllm` program. */
  readonly vllm: string;
  /** Folder of the model. */
  readonly model: string;
  readonly requests: number;
  readonly concurrency: number;
  /** KV cache in blocks of 32 tokens. */
  readonly blocks: number;
  readonly seed: number;
  /** No request is sent after so long. */
  readonly seconds: number;
  /** Where the log of `cgn up` goes. */
  readonly log: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Where the capture is kept; by default it is deleted. */
  readonly keep?: string;
  readonly temperatures?: readonly number[];
}

export interface LivePrediction {
  readonly requests: number;
  readonly exact: number;
  /** By an event that came after the request was sent, as the router says. */
  readonly explained: number;
  readonly missed: readonly {
    readonly id: string;
    readonly predicted: number;
    readonly reported: number;
    /** The router's verdict and its reason. */
    readonly verdict: string;
    readonly why: string;
    /** What a replay of the capture says: its clock is another, so it may say nothing. */
    readonly capture: string;
  }[];
  readonly predictedTokens: number;
  readonly reportedTokens: number;
  /** By the sources of `cgn up` at the end: blocks that do not count, and tokens checked. */
  readonly uncountedBlocks: number;
  readonly checkedTokens: number;
}

/** What an event may take from the engine to the index, both busy. */
const ON_ITS_WAY_S = 0.25;
const START_S = 300;

/** @throws Error when the engine does not become ready or requests fail */
export async function predictLive(options: LivePredictionOptions): Promise<LivePrediction> {
  const dir = mkdtempSync(join(tmpdir(), "cgn-predict-"));
  const [engine = 0, http = 0, admin = 0, kv = 0, agent = 0] = await freePorts(5);
  const config = join(dir, "cgn.toml");
  const kept = options.keep ?? join(dir, "capture");
  writeFileSync(config, toml(options, dir, { engine, http, admin, kv, agent }));
  const up = startUp(config, options);
  try {
    await ready(up, `http://127.0.0.1:${admin}`);
    const ids = await chat(options, `http://127.0.0.1:${engine}`, `http://127.0.0.1:${http}`, kept);
    return await compare(options, `http://127.0.0.1:${admin}`, ids, await readCapture(kept));
  } finally {
    up.kill("SIGTERM");
    await Promise.race([new Promise((done) => up.once("exit", done)), sleep(40_000)]);
    if (up.exitCode === null && up.signalCode === null) up.kill("SIGKILL");
    rmSync(dir, { recursive: true, force: true });
  }
}

type Ports = Readonly<Record<"engine" | "http" | "admin" | "kv" | "agent", number>>;

function toml({ vllm, model, blocks }: LivePredictionOptions, dir: string, ports: Ports): string {
  const text = JSON.stringify;
  return `
[router]
listen_http = "127.0.0.1:${ports.http}"
listen_admin = "127.0.0.1:${ports.admin}"
[agent]
node_id = "predict"
listen = "127.0.0.1:${ports.agent}"
state_dir = ${text(dir)}
log_dir = ${text(join(dir, "logs"))}
kv_uds = ${text(join(dir, "kv.sock"))}
platform = "cpu"
ready_timeout = "${START_S}s"
[kv]
uds = ${text(join(dir, "kv.sock"))}
listen = "127.0.0.1:${ports.kv}"
index_dir = ${text(join(dir, "index"))}
block_size_tokens = 32
[models.smollm2]
path = ${text(model)}
max_model_len = 1024
[[engines]]
kind = "vllm"
model = "smollm2"
url = "http://127.0.0.1:${ports.engine}"
kv_offload = "none"
[engines.vllm]
binary = ${text(vllm)}
extra_args = ["--enforce-eager", "--max-num-seqs", "8", "--num-gpu-blocks-override", "${blocks}"]
`;
}

function startUp(config: string, { env = {}, log }: LivePredictionOptions): ChildProcess {
  const entry = join(import.meta.dirname, "..", "src", "cli", "bin", "cgn.ts");
  const small = { VLLM_CPU_KVCACHE_SPACE: "1", VLLM_NO_USAGE_STATS: "1", DO_NOT_TRACK: "1", HF_HUB_OFFLINE: "1" };
  const child = spawn(process.execPath, ["--disable-warning=ExperimentalWarning", entry, "up", "--config", config], {
    env: { ...process.env, ...small, ...env, NO_COLOR: "1" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const file = createWriteStream(log);
  for (const stream of [child.stdout, child.stderr]) stream.pipe(file, { end: false });
  return child;
}

async function ready(up: ChildProcess, admin: string): Promise<void> {
  for (let i = 0; i < START_S * 2; i++) {
    if (up.exitCode !== null || up.signalCode !== null)
      throw new Error(`cgn up ended (${up.exitCode ?? up.signalCode})`);
    const reply = await fetch(`${admin}/readyz`).catch(() => undefined);
    if (reply?.ok) return;
    await sleep(500);
  }
  throw new Error(`cgn up was not ready after ${START_S} s`);
}

/** Send the chats through a recording proxy before the router. @returns request ids by their number in the capture */
async function chat(options: LivePredictionOptions, engine: string, router: string, out: string): Promise<string[]> {
  const source = await askEventSource(engine, "vllm");
  const start = performance.now();
  const clock = {
    now: () => performance.now() - start,
    wall: () => Date.now(),
    after(ms: number, run: () => void) {
      const timer = setTimeout(run, ms);
      return () => clearTimeout(timer);
    },
  };
  const listen = { host: "127.0.0.1", port: 0 };
  const capture = await startCapture({ engine: router, ...source, out, listen, redactWith: undefined, clock });
  await sleep(1_000);
  const { seed, temperatures } = options;
  const chats = createRandomChats({ seed, maxTokens: 24, ...(temperatures === undefined ? {} : { temperatures }) });
  const ids: string[] = [];
  let left = options.requests;
  const one = async () => {
    while (left-- > 0 && clock.now() < options.seconds * 1000) {
      const turn = chats.next();
      const { id, reply } = await ask(`http://127.0.0.1:${capture.port}`, turn);
      ids.push(id);
      chats.answered(turn.chat, reply);
    }
  };
  await Promise.all(Array.from({ length: options.concurrency }, one));
  // The last predictions are judged by then.
  await sleep(4_000);
  await capture.close();
  return ids;
}

async function ask(url: string, turn: ChatTurn): Promise<{ readonly id: string; readonly reply: string }> {
  const { messages, temperature, maxTokens: max_tokens, seed } = turn;
  const body = { model: "smollm2", messages, temperature, max_tokens, seed, return_token_ids: true };
  const headers = { "content-type": "application/json" };
  const reply = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body: JSON.stringify(body) });
  if (!reply.ok) throw new Error(`the router answered ${reply.status}: ${(await reply.text()).slice(0, 300)}`);
  const answer = (await reply.json()) as { choices?: { message?: { content?: string } }[] };
  return { id: reply.headers.get("x-request-id") ?? "", reply: answer.choices?.[0]?.message?.content ?? "" };
}

interface Decision {
  readonly id: string;
  readonly promptBytes?: number;
  readonly attempts: readonly { readonly predictedCachedTokens: number }[];
  readonly outcome?: {
    readonly cachedTokens?: number;
    readonly prediction?: { readonly result: string; readonly reason: string };
  };
}

async function compare(
  options: LivePredictionOptions,
  admin: string,
  ids: readonly string[],
  capture: Capture,
): Promise<LivePrediction> {
  const reply = await fetch(`${admin}/v1/cgn/decisions?limit=2000`);
  const { decisions } = (await reply.json()) as { decisions: readonly Decision[] };
  const asked = new Set(ids);
  const judged = decisions.filter((decision) => asked.has(decision.id));
  const missed = judged.flatMap(({ id, attempts, outcome }) => {
    const [predicted = 0, reported = -1] = [attempts.at(-1)?.predictedCachedTokens, outcome?.cachedTokens];
    const { result: verdict = "not judged", reason: why = "" } = outcome?.prediction ?? {};
    return predicted === reported ? [] : [{ id, predicted, reported, verdict, why }];
  });
  const causes = await causesOf(options, capture);
  const said = missed.map((miss) => ({
    ...miss,
    capture: causes.get(`${miss.predicted}/${miss.reported}`)?.shift() ?? "",
  }));
  const sum = (of: (decision: Decision) => number) => judged.reduce((total, decision) => total + of(decision), 0);
  const metrics = await (await fetch(`${admin}/metrics`)).text();
  return {
    requests: judged.length,
    exact: judged.length - missed.length,
    explained: said.filter((miss) => miss.verdict === "in_flight").length,
    missed: said,
    predictedTokens: sum(({ attempts }) => attempts.at(-1)?.predictedCachedTokens ?? 0),
    reportedTokens: sum(({ outcome }) => outcome?.cachedTokens ?? 0),
    uncountedBlocks: metricOf(metrics, /^cgn_kvcached_uncounted_blocks_total\{[^}]*\} (\d+)/m),
    checkedTokens: metricOf(metrics, /^cgn_kvcached_canonicity_tokens_total\{[^}]*result="checked"[^}]*\} (\d+)/m),
  };
}

const metricOf = (text: string, pattern: RegExp): number => Number(pattern.exec(text)?.[1] ?? 0);

/**
 * Misses of a router that hears of everything a little later than the capture did: each cause that the capture then shows, by
 * predicted and reported tokens.
 */
async function causesOf({ model }: LivePredictionOptions, capture: Capture): Promise<Map<string, string[]>> {
  const files = await readModel({ tokenizer: { dir: model }, repos: [], env: {} });
  const tools = files === undefined ? undefined : checkingTools(files);
  const text = await createVocabularies({}).of({ models: [], tokenizer: { dir: model } });
  const decode = findEngine("vllm").decodeEvents;
  const causes = new Map<string, string[]>();
  if (decode === undefined || tools === undefined || "reason" in tools) return causes;
  const late = (t: number) => t - ON_ITS_WAY_S;
  const requests = capture.requests.map((row) => (row.kind === "begin" ? { ...row, t: late(row.t) } : row));
  const index = createPrefixIndex({ capBytes: 2 ** 28, seed: 1 });
  const checker = new ChainChecker(tools.encoder, tools.vocabulary);
  const report = verifyCapture({
    capture: { ...capture, requests },
    text,
    decode,
    index,
    agentNotices: false,
    checker,
  });
  for (const { predicted, reported, cause, reason } of report.missed) {
    if (cause !== "in-flight") continue;
    const key = `${predicted}/${reported}`;
    causes.set(key, [...(causes.get(key) ?? []), reason]);
  }
  return causes;
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      vllm: { type: "string" },
      model: { type: "string" },
      requests: { type: "string", default: "300" },
      concurrency: { type: "string", default: "1" },
      blocks: { type: "string", default: "90" },
      seed: { type: "string", default: "1" },
      seconds: { type: "string", default: "300" },
      keep: { type: "string" },
      log: { type: "string", default: join(tmpdir(), "cgn-live-prediction.log") },
    },
  });
  if (values.vllm === undefined || values.model === undefined) throw new Error("Say --vllm BIN --model DIR");
  mkdirSync(join(values.log, ".."), { recursive: true });
  const { vllm, model, log } = values;
  const numbers = {
    requests: Number(values.requests),
    concurrency: Number(values.concurrency),
    blocks: Number(values.blocks),
  };
  const result = await predictLive({
    vllm,
    model,
    log,
    ...numbers,
    ...(values.keep === undefined ? {} : { keep: values.keep }),
    seed: Number(values.seed),
    seconds: Number(values.seconds),
  });
  process.stdout.write(`${JSON.stringify(result, undefined, 2)}\n`);
  process.exitCode =
    result.exact + result.explained === result.requests && result.exact >= 0.99 * result.requests ? 0 : 1;
}

if (import.meta.main) await main();
