import { describe, expect, it } from "vitest";
import type { EngineKind } from "../core/engine-kind.ts";
import type { WorkerInfo, WorkerTraits } from "../core/worker.ts";
import { foldsStep, whyBlind } from "./cascade-ask.ts";
import { folds } from "./forward.ts";
import type { ReadRequest } from "./read.ts";
import { testWorker } from "./testing/test-router.ts";

const worker = (kind: EngineKind, traits: WorkerTraits = {}): WorkerInfo =>
  testWorker("w", "http://127.0.0.1:1", { kind, traits });
const chat = (json: object, stream = false): ReadRequest => ({
  kind: "chat",
  model: "m",
  body: Buffer.alloc(0),
  json: json as Readonly<Record<string, unknown>>,
  stream,
  root: "",
  readsCache: true,
});
const tools = [{ type: "function", function: { name: "f" } }];
const FOLDS = { foldNonStreaming: true };

describe("whyBlind()", () => {
  it("says why an answer will tell nothing of its tokens, and nothing where it will", () => {
    expect(whyBlind(worker("vllm"), chat({}))).toBeUndefined();
    expect(whyBlind(worker("sglang"), chat({ tools }, true))).toBeUndefined();
    expect(whyBlind(worker("llama_cpp"), chat({ tools }))).toBeUndefined();
    expect(whyBlind(worker("mlx"), chat({}))).toBeUndefined();
    expect(whyBlind(worker("llama_cpp"), chat({ tools }, true))).toContain("with tools");
    expect(whyBlind(worker("mlx"), chat({}, true))).toContain("streams of w");
    expect(whyBlind(worker("llama_cpp", { lacksLogprobs: true }), chat({}))).toContain("w tells no");
    expect(whyBlind(worker("vllm"), { ...chat({ echo: true }), kind: "completion" })).toContain("echo");
    expect(whyBlind(worker("vllm"), { ...chat({}), kind: "messages" })).toContain("API");
    expect(whyBlind(worker("vllm"), { ...chat({}), unmatched: "too large" })).toContain("too large");
  });
});

describe("foldsStep()", () => {
  it("asks for streams where nothing of the answer is lost by it", () => {
    expect(foldsStep(worker("vllm"), chat({}))).toBe(true);
    expect(foldsStep(worker("vllm"), chat({ tools }))).toBeUndefined();
    expect(foldsStep(worker("vllm"), chat({ response_format: { type: "json_object" } }))).toBeUndefined();
    expect(foldsStep(worker("vllm"), chat({}, true))).toBeUndefined();
    expect(foldsStep(worker("llama_cpp", FOLDS), chat({}))).toBeUndefined();
    expect(foldsStep(worker("llama_cpp", FOLDS), chat({ tools }))).toBe(false);
    expect(foldsStep(worker("mlx", FOLDS), chat({}))).toBe(false);
  });
});

describe("folds()", () => {
  // MLX's streams have no log probabilities, and llama-server answers 400 to a stream with tools that asks for them.
  it("leaves a whole answer whole whose stream would lose log probabilities, or be refused for them", () => {
    expect(folds(worker("mlx", FOLDS), chat({}))).toBe(true);
    expect(folds(worker("mlx", FOLDS), chat({ logprobs: true }))).toBe(false);
    expect(folds(worker("llama_cpp", FOLDS), chat({ logprobs: true }))).toBe(true);
    expect(folds(worker("llama_cpp", FOLDS), chat({ tools }))).toBe(true);
    expect(folds(worker("llama_cpp", FOLDS), chat({ tools, logprobs: true }))).toBe(false);
    expect(folds(worker("vllm"), chat({}))).toBe(false);
    expect(folds(worker("vllm"), chat({}), true)).toBe(true);
  });
});
