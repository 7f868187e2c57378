type Body = Readonly<Record<string, unknown>>;

/** Sampling as `/props` and `/slots` tell it, with the defaults of llama-server (xllamacpp 2026.10). */
export function defaultSettings(): Record<string, unknown> {
  return {
    seed: 4_294_967_295,
    temperature: Math.fround(0.8),
    dynatemp_range: 0,
    dynatemp_exponent: 1,
    top_k: 40,
    top_p: Math.fround(0.95),
    min_p: Math.fround(0.05),
    top_n_sigma: -1,
    xtc_probability: 0,
    xtc_threshold: Math.fround(0.1),
    typical_p: 1,
    repeat_last_n: 64,
    repeat_penalty: 1,
    presence_penalty: 0,
    frequency_penalty: 0,
    dry_multiplier: 0,
    dry_base: 1.75,
    dry_allowed_length: 2,
    dry_penalty_last_n: 64,
    mirostat: 0,
    mirostat_tau: 5,
    mirostat_eta: Math.fround(0.1),
    adaptive_target: -1,
    adaptive_decay: Math.fround(0.9),
    max_tokens: -1,
    n_predict: -1,
    n_keep: 0,
    n_discard: 0,
    ignore_eos: false,
    stream: false,
    n_probs: 0,
    min_keep: 0,
    chat_format: "Content-only",
    reasoning_format: "none",
    reasoning_in_content: false,
    generation_prompt: "",
    samplers: ["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"],
    "speculative.types": "none",
    timings_per_token: false,
    post_sampling_probs: false,
    backend_sampling: false,
    lora: [],
  };
}

const TAKEN = [
  "seed",
  "temperature",
  "top_k",
  "top_p",
  "min_p",
  "typical_p",
  "repeat_last_n",
  "repeat_penalty",
  "presence_penalty",
  "frequency_penalty",
  "n_keep",
  "ignore_eos",
  "stream",
  "timings_per_token",
];

/** Those of one request. `whole` has what only an answer tells (`generation_settings`). */
export function settingsOf(
  body: Body,
  facts: { readonly chat: boolean; readonly limit: number; readonly probs: number },
  whole: boolean,
): object {
  const settings = defaultSettings();
  for (const name of TAKEN) if (typeof body[name] === typeof settings[name]) settings[name] = body[name];
  settings["reasoning_format"] = "deepseek";
  settings["max_tokens"] = facts.limit;
  settings["n_predict"] = facts.limit;
  settings["n_probs"] = facts.probs;
  if (facts.chat) {
    settings["chat_format"] = "peg-native";
    settings["generation_prompt"] = "<|im_start|>assistant\n";
  }
  if (!whole) return settings;
  const stop = [body["stop"]].flat().filter((text) => typeof text === "string");
  return {
    ...settings,
    dry_sequence_breakers: ["\n", ":", '"', "*"],
    stop,
    logit_bias: [],
    grammar: typeof body["grammar"] === "string" ? body["grammar"] : "",
    grammar_lazy: false,
    grammar_triggers: [],
    preserved_tokens: [],
  };
}
