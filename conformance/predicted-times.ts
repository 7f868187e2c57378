/**
 * Predicted against real: the same random conversations to running engines and to engine models, with the engines' own profile.
 *
 *   node conformance/predicted-times.ts --url http://127.0.0.1:8080 --url http://127.0.0.1:8081 --model NAME --profile fitted.json --slots 4
 *   node conformance/predicted-times.ts --url http://127.0.0.1:8000 --model NAME --profile fitted.json --kind vllm --block-size 32 --blocks 2000
 *
 * The engines must be fresh (their caches empty) and have nothing else to do. Conversations come at random times and wait for their
 * last answer, as people do. Prints one JSON object; ends with 1 when the prediction is further off than the goals: hit rate 1 %
 * (vLLM: each request's cached tokens equal), mean TTFT 20 %, p90 30 %. `--details FILE` has each request.
 */
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { systemClock } from "../src/cli/system-clock.ts";
import { CacheNews } from "../src/sim/model/cache-news.ts";
import { type EngineLimits, EngineModel, type ModelOutput, type ModelRequest } from "../src/sim/model/engine-model.ts";
import { fastNamer } from "../src/sim/model/namer.ts";
import { sequenceOf } from "../src/sim/model/sequence.ts";
import { SlotStore } from "../src/sim/model/slot-store.ts";
import { findProfile } from "../src/sim/profiles/find-profile.ts";
import { timedRequest } from "../src/sim/profiles/timed-request.ts";

const { values } = parseArgs({
  options: {
    url: { type: "string", multiple: true, default: [] },
    model: { type: "string" },
    profile: { type: "string" },
    kind: { type: "string", default: "llama_cpp" },
    slots: { type: "string", default: "4" },
    "block-size": { type: "string", default: "16" },
    blocks: { type: "string", default: "8192" },
    "batched-tokens": { type: "string", default: "2048" },
    conversations: { type: "string", default: "12" },
    requests: { type: "string", default: "100" },
    "gap-ms": { type: "string", default: "1500" },
    seed: { type: "string", default: "12345" },
    details: { type: "string" },
  },
});

const clock = systemClock();
/** So many turns in a hundred go to another engine than the conversation's own, as routers do now and then. */
const ASTRAY_PERCENT = 10;
const LONGEST_PROMPT = 900;

interface Turn {
  readonly at: number;
  readonly conversation: number;
  readonly engine: number;
  readonly prompt: readonly number[];
  readonly tokens: number;
}

interface Seen {
  readonly ttftMs: number;
  readonly cachedTokens: number;
}

/** What came of a request, and when, in milliseconds of the run. */
interface Played extends Seen {
  readonly at: number;
  readonly endedAt: number;
}

/** Conversations under two system prompts; each request goes on with one, or begins it anew. */
function conversations(count: number, engines: number, gapMs: number, seed: number): readonly Turn[] {
  let state = seed >>> 0;
  const random = (): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
  const tokens = (n: number) => Array.from({ length: n }, () => 1000 + Math.floor(random() * 40_000));
  const systems = [tokens(120), tokens(200)];
  const begin = (i: number): number[] => systems[i % 2]!;
  const turns = Array.from({ length: Number(values.conversations) }, (_, i) => begin(i));
  let at = 0;
  return Array.from({ length: count }, () => {
    at -= Math.log(1 - random()) * gapMs;
    const conversation = Math.floor(random() * turns.length);
    if (turns[conversation]!.length > LONGEST_PROMPT || random() < 0.1) turns[conversation] = begin(conversation);
    turns[conversation] = [...turns[conversation]!, ...tokens(40 + Math.floor(random() * 120))];
    const astray = random() * 100 < ASTRAY_PERCENT ? 1 : 0;
    const engine = (Math.floor(conversation / 2) + astray) % engines;
    return { at, conversation, engine, prompt: turns[conversation]!, tokens: 8 + Math.floor(random() * 24) };
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

/** @returns what came of each, with the time at which it was really sent */
async function play(turns: readonly Turn[]): Promise<readonly Played[]> {
  const engines = values.url.map((url) => ({
    url: url.replace(/\/+$/, ""),
    model: String(values.model),
    apiKey: undefined,
    clock,
    signal: new AbortController().signal,
  }));
  const start = clock.now() + 200;
  const last = new Map<number, Promise<unknown>>();
  const send = async ({ at, engine, prompt, tokens }: Turn, before: Promise<unknown> | undefined) => {
    await new Promise<void>((resolve) => clock.after(Math.max(0, start + at - clock.now()), resolve));
    await before;
    const answer = await timedRequest(engines[engine]!, prompt, tokens);
    const ttftMs = answer.tokenTimes[0]! - answer.sentAt;
    const endedAt = answer.tokenTimes.at(-1)! - start;
    return { at: answer.sentAt - start, endedAt, ttftMs, cachedTokens: answer.cachedTokens };
  };
  return Promise.all(
    turns.map((turn) => {
      const answer = send(turn, last.get(turn.conversation));
      last.set(turn.conversation, answer);
      return answer;
    }),
  );
}

/** Answers are like nothing that is ever asked. */
function requestOf({ prompt, tokens }: Turn, i: number): ModelRequest {
  const output = Array.from({ length: tokens }, (_, k) => -1 - k - 1000 * i);
  return { id: String(i), prompt, output, finish: "length", lora: "", salt: "" };
}

/** @param times when each request was really sent */
function predict(turns: readonly Turn[], times: readonly number[]): readonly Seen[] {
  const profile = findProfile(String(values.profile), process.cwd());
  const models = values.url.map(() => new EngineModel(limits(), profile, fastNamer));
  const seen = turns.map(() => ({ ttftMs: 0, cachedTokens: 0 }));
  const take = (outputs: readonly ModelOutput[]): void => {
    for (const o of outputs) {
      if (o.type !== "finished") continue;
      seen[Number(o.id)] = { ttftMs: o.timing.firstAt - o.timing.submittedAt, cachedTokens: o.use.cachedTokens };
    }
  };
  const order = turns.map((_, i) => i).sort((a, b) => times[a]! - times[b]!);
  for (const i of order) {
    const model = models[turns[i]!.engine]!;
    take(model.advance(times[i]!));
    model.submit(times[i]!, requestOf(turns[i]!, i));
  }
  for (const model of models)
    for (let i = 0; i < 1e6 && model.nextAt !== undefined; i++) take(model.advance(model.nextAt));
  return seen;
}

/**
 * llama-server's cached tokens by the slots' rules alone, each request taking a slot and leaving it when it really did: tells
 * errors of the rules from those of the times.
 */
function cachedBySlots(turns: readonly Turn[], played: readonly Played[]): readonly number[] {
  const found = turns.map(() => 0);
  for (const [engine] of values.url.entries()) {
    const cache = new SlotStore(limits(), new CacheNews(false));
    const waiting: number[] = [];
    const sequences = turns.map((turn, i) => sequenceOf(requestOf(turn, i)));
    const start = (): void => {
      for (let i = waiting[0]; i !== undefined; i = waiting[0]) {
        const match = cache.match(sequences[i]!);
        if (!cache.admit(sequences[i]!, match, sequences[i]!.length)) return;
        found[i] = match.tokens;
        waiting.shift();
      }
    };
    const mine = turns.flatMap((turn, i) => (turn.engine === engine ? [i] : []));
    const moments = mine
      .flatMap((i) => [
        { at: played[i]!.at, i, ends: false },
        { at: played[i]!.endedAt, i, ends: true },
      ])
      .sort((a, b) => a.at - b.at);
    for (const { i, ends } of moments) {
      if (!ends) waiting.push(i);
      else {
        const sequence = sequences[i]!;
        // The last token was never fed back.
        sequence.tokens!.push(...requestOf(turns[i]!, i).output.slice(0, -1));
        sequence.length = sequence.tokens!.length;
        cache.store(sequence, sequence.length);
        cache.release(sequence);
      }
      start();
    }
  }
  return found;
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
  if (values[flag] !== undefined && values[flag].length > 0) continue;
  console.error(`Cannot compare: --${flag} is missing`);
  process.exit(2);
}
const requests = conversations(
  Number(values.requests),
  values.url.length,
  Number(values["gap-ms"]),
  Number(values.seed),
);
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
const bySlots = values.kind === "llama_cpp" ? cachedBySlots(requests, played) : undefined;
const equalBySlots = bySlots?.filter((tokens, i) => tokens === played[i]!.cachedTokens).length;
if (values.details !== undefined) {
  const lines = played.map(({ at, endedAt, ttftMs, cachedTokens }, i) => {
    const { engine, conversation, prompt, tokens } = requests[i]!;
    const sizes = {
      promptTokens: prompt.length,
      tokens,
      cachedTokens,
      predictedTokens: predictions[i]!.cachedTokens,
      bySlots: bySlots?.[i],
    };
    return JSON.stringify({ at, endedAt, engine, conversation, ...sizes, ttftMs, predictedMs: predictions[i]!.ttftMs });
  });
  writeFileSync(values.details, `${lines.join("\n")}\n`);
}
const holds = hits && Math.abs(offPercent.ttftMean) <= 20 && Math.abs(offPercent.ttftP90) <= 30;
console.log(
  JSON.stringify({ requests: requests.length, equal, equalBySlots, real, predicted, offPercent, holds }, undefined, 2),
);
process.exitCode = holds ? 0 : 1;
