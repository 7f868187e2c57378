/**
 * Predicted against real: the same random conversations to a running engine and to the engine model, with the engine's own profile.
 *
 *   node conformance/predicted-times.ts --url http://127.0.0.1:8080 --model NAME --profile fitted.json --kind llama_cpp --slots 4
 *   node conformance/predicted-times.ts --url http://127.0.0.1:8000 --model NAME --profile fitted.json --kind vllm --block-size 32 --blocks 2000
 *
 * The engine must be fresh (its cache empty) and have nothing else to do. Prints one JSON object; ends with 1 when the prediction is
 * further off than the goals: hit rate 1 % (vLLM: each request's cached tokens equal), mean TTFT 20 %, p90 30 %.
 */
import { parseArgs } from "node:util";
import { systemClock } from "../src/cli/system-clock.ts";
import { type EngineLimits, EngineModel, type ModelOutput } from "../src/sim/model/engine-model.ts";
import { fastNamer } from "../src/sim/model/namer.ts";
import { findProfile } from "../src/sim/profiles/find-profile.ts";
import { timedRequest } from "../src/sim/profiles/timed-request.ts";

const { values } = parseArgs({
  options: {
    url: { type: "string" },
    model: { type: "string" },
    profile: { type: "string" },
    kind: { type: "string", default: "llama_cpp" },
    slots: { type: "string", default: "4" },
    "block-size": { type: "string", default: "16" },
    blocks: { type: "string", default: "16384" },
    "batched-tokens": { type: "string", default: "2048" },
    requests: { type: "string", default: "60" },
    "gap-ms": { type: "string", default: "2500" },
    seed: { type: "string", default: "12345" },
  },
});

const clock = systemClock();

interface Timed {
  readonly at: number;
  readonly prompt: readonly number[];
  readonly tokens: number;
}

interface Seen {
  readonly ttftMs: number;
  readonly cachedTokens: number;
}

/** Six conversations under two system prompts; each request goes on with one, or begins it anew. */
function conversations(count: number, gapMs: number, seed: number): readonly Timed[] {
  let state = seed >>> 0;
  const random = (): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
  const tokens = (n: number) => Array.from({ length: n }, () => 1000 + Math.floor(random() * 40_000));
  const systems = [tokens(120), tokens(200)];
  const begin = (i: number): number[] => systems[i % 2]!;
  const turns = Array.from({ length: 6 }, (_, i) => begin(i));
  let at = 0;
  return Array.from({ length: count }, () => {
    at -= Math.log(1 - random()) * gapMs;
    const i = Math.floor(random() * turns.length);
    if (turns[i]!.length > 900 || random() < 0.1) turns[i] = begin(i);
    turns[i] = [...turns[i]!, ...tokens(40 + Math.floor(random() * 120))];
    return { at, prompt: turns[i]!, tokens: 8 + Math.floor(random() * 24) };
  });
}

function limits(): EngineLimits {
  const llama = values.kind === "llama_cpp";
  return {
    blocks: Number(values.blocks),
    blockTokens: llama ? 1 : Number(values["block-size"]),
    maxBatchedTokens: Number(values["batched-tokens"]),
    maxSequences: llama ? Number(values.slots) : 256,
    prefixCaching: true,
    generatedBlocks: values.kind === "sglang" ? "at-finish" : "as-filled",
    publishesWhenIdle: false,
    eviction: values.kind === "vllm" || values.kind === "sglang" ? values.kind : "llama_cpp",
    // As launched with --parallel N: a context a slot.
    slots: { storeTokens: 1_000_000, emptiesFree: false, savesFree: true },
  };
}

async function play(requests: readonly Timed[]): Promise<readonly (Seen & { readonly at: number })[]> {
  const engine = {
    url: String(values.url).replace(/\/+$/, ""),
    model: String(values.model),
    apiKey: undefined,
    clock,
    signal: new AbortController().signal,
  };
  const start = clock.now() + 200;
  return Promise.all(
    requests.map(async ({ at, prompt, tokens }) => {
      await new Promise<void>((resolve) => clock.after(Math.max(0, start + at - clock.now()), resolve));
      const answer = await timedRequest(engine, prompt, tokens);
      const ttftMs = answer.tokenTimes[0]! - answer.sentAt;
      return { at: answer.sentAt - start, ttftMs, cachedTokens: answer.cachedTokens };
    }),
  );
}

/** @param times when each request was really sent */
function predict(requests: readonly Timed[], times: readonly number[]): readonly Seen[] {
  const model = new EngineModel(limits(), findProfile(String(values.profile), process.cwd()), fastNamer);
  const seen = requests.map(() => ({ ttftMs: 0, cachedTokens: 0 }));
  const take = (outputs: readonly ModelOutput[]): void => {
    for (const o of outputs) {
      if (o.type !== "finished") continue;
      seen[Number(o.id)] = { ttftMs: o.timing.firstAt - o.timing.submittedAt, cachedTokens: o.use.cachedTokens };
    }
  };
  requests.forEach(({ prompt, tokens }, i) => {
    take(model.advance(times[i]!));
    // Answers are like nothing that is ever asked.
    const output = Array.from({ length: tokens }, (_, k) => -1 - k - 1000 * i);
    model.submit(times[i]!, { id: String(i), prompt, output, finish: "length", lora: "", salt: "" });
  });
  for (let i = 0; i < 1e6 && model.nextAt !== undefined; i++) take(model.advance(model.nextAt));
  return seen;
}

function summary(seen: readonly Seen[], promptTokens: number) {
  const ttft = seen.map(({ ttftMs }) => ttftMs).sort((a, b) => a - b);
  return {
    hitRate: seen.reduce((sum, { cachedTokens }) => sum + cachedTokens, 0) / promptTokens,
    ttftMs: {
      mean: ttft.reduce((sum, each) => sum + each, 0) / ttft.length,
      p50: ttft[Math.floor(ttft.length / 2)]!,
      p90: ttft[Math.floor(ttft.length * 0.9)]!,
    },
  };
}

for (const flag of ["url", "model", "profile"] as const) {
  if (values[flag] !== undefined) continue;
  console.error(`Cannot compare: --${flag} is missing`);
  process.exit(2);
}
const requests = conversations(Number(values.requests), Number(values["gap-ms"]), Number(values.seed));
const promptTokens = requests.reduce((sum, { prompt }) => sum + prompt.length, 0);
const played = await play(requests);
const predictions = predict(
  requests,
  played.map(({ at }) => at),
);
const real = summary(played, promptTokens);
const predicted = summary(predictions, promptTokens);
const equal = predictions.filter((each, i) => each.cachedTokens === played[i]!.cachedTokens).length;
const off = (a: number, b: number): number => (100 * (a - b)) / b;
const offPercent = {
  hitRate: off(predicted.hitRate, real.hitRate),
  ttftMean: off(predicted.ttftMs.mean, real.ttftMs.mean),
  ttftP90: off(predicted.ttftMs.p90, real.ttftMs.p90),
};
const hits = values.kind === "vllm" ? equal === requests.length : Math.abs(offPercent.hitRate) <= 1;
const holds = hits && Math.abs(offPercent.ttftMean) <= 20 && Math.abs(offPercent.ttftP90) <= 30;
console.log(JSON.stringify({ requests: requests.length, equal, real, predicted, offPercent, holds }, undefined, 2));
process.exitCode = holds ? 0 : 1;
