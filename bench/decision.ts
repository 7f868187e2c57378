import { systemClock } from "../src/cli/system-clock.ts";
import { nodeId, workerId } from "../src/core/ids.ts";
import type { WorkerMatch } from "../src/core/prefix-knowledge.ts";
import type { WorkerInfo } from "../src/core/worker.ts";
import type { PrefixMatch } from "../src/kvindex/prefix-index.ts";
import { createPrefixIndex } from "../src/kvindex/run-index.ts";
import { type Chooser, chooseAndBook, type Question } from "../src/router/choose.ts";
import { Learning } from "../src/routing/learning.ts";
import { LoadBook } from "../src/routing/load.ts";
import { createPolicy } from "../src/routing/policies.ts";
import { prefixHash } from "../src/routing/rendezvous.ts";
import { Sample } from "../src/sim/replay/sample.ts";
import { cpuMs } from "./index-under-test.ts";
import { type BenchResult, figure, machine, printResult } from "./result.ts";

const WORKERS = 64;
const TOKENS = 8192;
const BYTES_PER_TOKEN = 4;
const BLOCK_TOKENS = 16;
/** Of each prompt, what all chats begin with: every worker holds it. */
const SYSTEM_TOKENS = 1024;
const CHATS = 300;
const DECISIONS = 20_000;
const WARM_UP = 5_000;
const ROUNDS = 5;
/** In flight at each moment. */
const IN_FLIGHT = 512;

/**
 * From a rendered prompt to a booked worker: hash and match, what is known of each of 64 workers, the policy, the booking. Prompts of 8k
 * tokens whose beginning all workers hold and the rest of it two of them. Wall time of each decision, so p99 has the machine's own
 * pauses in it; and the thread's CPU time.
 */
export async function run({ json }: { readonly json: boolean }): Promise<BenchResult> {
  const index = createPrefixIndex({ capBytes: 2 ** 30, seed: 1 });
  const ids = Array.from({ length: WORKERS }, (_, i) => workerId(`node-${i}/model`));
  const slots = ids.map((id) => index.addWorker(id));
  const prompts = Array.from({ length: CHATS }, (_, i) => prompt(i + 1));
  let names = 1n;
  for (const [i, bytes] of prompts.entries()) {
    const count = bytes.length / (BLOCK_TOKENS * BYTES_PER_TOKEN) - 8;
    const list = BigUint64Array.from({ length: count }, () => names++);
    const ends = Uint32Array.from(list, (_, k) => (k + 1) * BLOCK_TOKENS * BYTES_PER_TOKEN);
    const stored = { root: "", parent: undefined, blockTokens: BLOCK_TOKENS, tier: "device" as const };
    for (const slot of [slots[i % WORKERS]!, slots[(i * 7 + 3) % WORKERS]!]) {
      index.store(slot, { ...stored, names: list, bytes, ends });
    }
    if (i > 0) continue;
    const head = SYSTEM_TOKENS / BLOCK_TOKENS;
    for (const slot of slots)
      index.store(slot, { ...stored, names: list.slice(0, head), bytes, ends: ends.slice(0, head) });
  }
  const decide = decider(ids, (bytes, out) => index.match("", bytes, out));
  const policies = ["ttft", "weighted"] as const;
  const results = policies.flatMap((policy) => {
    const p50: number[] = [];
    const p99: number[] = [];
    const cpu: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const one = decide(policy);
      for (let i = 0; i < WARM_UP; i++) one(prompts[i % CHATS]!);
      const took = new Sample();
      const ms = cpuMs(() => {
        for (let i = 0; i < DECISIONS; i++) {
          const start = performance.now();
          one(prompts[(i * 31) % CHATS]!);
          took.add((performance.now() - start) * 1000);
        }
      });
      p50.push(took.at(0.5));
      p99.push(took.at(0.99));
      cpu.push((ms * 1000) / DECISIONS);
    }
    const name = `${policy}, ${WORKERS} workers, ${TOKENS} tokens`;
    return [
      figure(name, "decision p50", "us", p50),
      figure(name, "decision p99", "us", p99),
      figure(name, "decision CPU", "us", cpu),
    ];
  });
  const result: BenchResult = { bench: "decision", results, machine: machine() };
  printResult(result, json);
  return result;
}

/** All that happens between a rendered prompt and a booking, with many requests in flight. */
function decider(ids: readonly WorkerInfo["id"][], match: (bytes: Uint8Array, out: PrefixMatch[]) => unknown) {
  const workers = ids.map(workerOf);
  const group = { model: "m", workers, ready: workers };
  const out: PrefixMatch[] = [];
  return (name: string) => {
    const policy = createPolicy(name);
    const chooser: Chooser = {
      policy: () => policy,
      loads: new LoadBook(),
      learning: new Learning(),
      clock: systemClock(),
      perReplica: undefined,
      ttftSloMs: undefined,
    };
    const running: { readonly end: () => void }[] = [];
    let turn = 0;
    return (bytes: Uint8Array): void => {
      match(bytes, out);
      const matches: WorkerMatch[] = out.map((m) => ({ ...m }));
      const prompt = {
        bytes,
        reason: undefined,
        length: bytes.length,
        exactTokens: undefined,
        prefix: prefixHash("", bytes),
      };
      const question: Question = { prompt, matches, session: undefined };
      const choice = chooseAndBook(chooser, group, question, new Set())!;
      const { worker, booking, queuedTokens, streams, promptTokens, predictedTokens } = choice;
      running.push({
        end() {
          booking.release();
          const uncachedTokens = promptTokens - predictedTokens;
          const ttftMs = 20 + 0.1 * (uncachedTokens + queuedTokens) + streams;
          chooser.learning.observe(worker.id, "m", { uncachedTokens, queuedTokens, streams, ttftMs });
        },
      });
      if (turn++ % 2 === 0) booking.firstToken();
      if (running.length > IN_FLIGHT) running.shift()!.end();
    };
  };
}

function workerOf(id: WorkerInfo["id"]): WorkerInfo {
  return {
    id,
    node: nodeId("n"),
    kind: "vllm",
    traits: {},
    url: "http://127.0.0.1:8000",
    models: ["m"],
    role: "both",
    blockTokens: BLOCK_TOKENS,
    kv: { type: "history", entries: 32 },
    tokenizer: {},
    state: "ready",
    reason: "",
    epoch: 1,
  };
}

/** The same beginning for all, then another text for each. */
function prompt(seed: number): Uint8Array {
  const bytes = new Uint8Array(TOKENS * BYTES_PER_TOKEN);
  let state = 7;
  for (let i = 0; i < bytes.length; i++) {
    if (i === SYSTEM_TOKENS * BYTES_PER_TOKEN) state = seed | 1;
    state = Math.imul(state, 1664525) + 1013904223;
    bytes[i] = 97 + ((state >>> 24) % 26);
  }
  return bytes;
}
