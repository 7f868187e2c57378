/** Names of products as their owners write them. */
const NAMES = [
  "vLLM",
  "SGLang",
  "llama.cpp",
  "MLX",
  "LMCache",
  "NIXL",
  "HiCache",
  "KVBM",
  "Mooncake",
  "Dynamo",
  "Ollama",
  "OpenAI",
  "Anthropic",
  "LangChain",
  "LiteLLM",
  "Hugging Face",
  "Prometheus",
  "Grafana",
  "OpenTelemetry",
  "Kubernetes",
  "Helm",
  "Redis",
  "TypeScript",
  "JavaScript",
  "GitHub",
  "Linux",
  "macOS",
  "Chromium",
  "NVIDIA",
  "Preact",
  "Qwen",
  "DeepSeek",
  "Llama",
  "Mistral",
];

/** Spellings of `name` that somebody may write by mistake. */
function anySpelling(name: string): RegExp {
  const letters = name.replaceAll(/[ .]/g, "");
  return new RegExp(`(?<![\\w./@:-])${[...letters].join("[ .-]?")}(?![\\w/-]|\\.\\w)`, "gi");
}

/** Other words that are spelt so too. */
const FINE: Readonly<Record<string, RegExp>> = {
  Helm: /^helm$/, // The program.
  Llama: /^llama$/,
  "llama.cpp": /^llama_cpp$/,
};

/** Words of the prose (code and links left out) that are a product's name in another spelling. */
export function misspelt(prose: string): string[] {
  const text = prose
    .replaceAll(/`[^`]*`/g, "` `")
    .replaceAll(/\]\([^)]*\)/g, "] ")
    .replaceAll(/<[^>\n]*>/g, " ");
  return NAMES.flatMap((name) =>
    [...text.matchAll(anySpelling(name))]
      .map(([found]) => found)
      .filter((found) => found !== name && FINE[name]?.test(found) !== true)
      .map((found) => `${found}: write ${name}`),
  );
}
