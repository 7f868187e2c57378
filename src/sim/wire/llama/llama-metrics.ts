import type { SimEngine } from "../sim-engine.ts";

/** `/metrics` of llama-server (xllamacpp 2026.10), name for name. */
export function llamaMetrics({ loop, tallied, slots }: SimEngine): string {
  const c = loop.model.counters;
  const promptS = tallied.promptMs / 1000;
  const predictedS = tallied.predictedMs / 1000;
  const computed = c.promptTokens - c.hitTokens;
  const rate = (tokens: number, seconds: number): number => (seconds === 0 ? 0 : tokens / seconds);
  const rows: readonly (readonly [name: string, type: "counter" | "gauge", help: string, value: number])[] = [
    ["prompt_tokens_total", "counter", "Number of prompt tokens processed, excluding cached tokens", computed],
    ["prompt_tokens_cached_total", "counter", "Number of prompt tokens reused from the cache", c.hitTokens],
    ["prompt_seconds_total", "counter", "Total time spent processing prompts", promptS],
    ["tokens_predicted_total", "counter", "Number of generation tokens processed", c.generatedTokens],
    ["tokens_predicted_seconds_total", "counter", "Total time spent generating tokens", predictedS],
    [
      "n_decode_total",
      "counter",
      "Total number of llama_decode() calls, excluding speculative decoding and multimodal decoding",
      c.steps,
    ],
    ["n_tokens_max", "counter", "Largest observed sequence length (prompt + generation)", tallied.longest],
    ["spec_decode_num_draft_tokens_total", "counter", "Speculative: Total draft tokens generated", 0],
    [
      "spec_decode_num_accepted_tokens_total",
      "counter",
      "Speculative: Total draft tokens accepted by the target model",
      0,
    ],
    ["spec_decode_num_drafts_total", "counter", "Speculative: Total speculative decoding verification steps", 0],
    ["prompt_tokens_seconds", "gauge", "Average prompt throughput in tokens/s", rate(computed, promptS)],
    [
      "predicted_tokens_seconds",
      "gauge",
      "Average generation throughput in tokens/s",
      rate(c.generatedTokens, predictedS),
    ],
    ["requests_processing", "gauge", "Number of requests processing", loop.model.running],
    ["requests_deferred", "gauge", "Number of requests deferred", loop.model.waiting],
    [
      "n_busy_slots_per_decode",
      "gauge",
      "Average number of busy slots per llama_decode() call",
      c.steps === 0 ? 0 : Math.max(1, slots?.processing ?? 0),
    ],
  ];
  const text = rows.map(
    ([name, type, help, value]) =>
      `# HELP llamacpp:${name} ${help}\n# TYPE llamacpp:${name} ${type}\nllamacpp:${name} ${Number(value.toPrecision(6))}\n`,
  );
  return text.join("");
}
