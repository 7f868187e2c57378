import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { createInterface } from "node:readline/promises";
import { CgnError, isCgnError } from "../core/errors.ts";
import { baseUrl } from "./admin-client.ts";
import { type ChatEndpoint, type ChatMessage, type ChatTurn, chatTurn, listModels } from "./chat-client.ts";
import type { CliContext, Command, Values } from "./command.ts";
import { startLocal } from "./run-local.ts";

const DEFAULT_URL = "http://127.0.0.1:8080";

const HELP = "/bye ends, /clear forgets the conversation, /help shows this";

/** `cgn run MODEL`: a chat in the terminal, with the route and the hit of each turn. */
export const runCommand: Command = {
  name: "run",
  about:
    "chat with a model in the terminal; below each answer stands which engine gave it and how much came from its cache",
  examples: [
    "cgn run qwen3-8b",
    'cgn run qwen3-8b "Why is the sky blue?"',
    "cgn run ./model.gguf",
    "cgn run --url http://10.0.0.2:8080 < question.txt",
  ],
  positionals: [
    { name: "MODEL", about: "a model of the endpoint, or a .gguf file that is started for this chat", required: false },
    {
      name: "PROMPT",
      about: "one question; without it a conversation, or what stdin has",
      required: false,
      variadic: true,
    },
  ],
  options: {
    url: { type: "string", value: "URL", about: "the endpoint", default: DEFAULT_URL },
    "key-file": { type: "string", value: "FILE", about: "file with an API key (else $CGN_API_KEY)" },
    system: { type: "string", value: "TEXT", about: "system prompt" },
    "max-tokens": { type: "number", value: "N", whole: true, min: 1, max: 1_000_000, about: "longest answer" },
    quiet: { type: "boolean", about: "answers only, no figures" },
  },
  async run({ options, positionals }, cli) {
    const [name, ...words] = positionals;
    if (name?.endsWith(".gguf") !== true) return chat(name, words, endpointOf(options, cli), options, cli);
    const local = await startLocal(resolve(cli.cwd, name), cli);
    try {
      return await chat(local.model, words, { url: local.url, key: undefined }, options, cli);
    } finally {
      await local.stop();
    }
  },
};

function endpointOf(options: Values, { env, cwd }: Pick<CliContext, "env" | "cwd">): ChatEndpoint {
  const url = baseUrl(String(options["url"] ?? DEFAULT_URL), "--url");
  const file = options["keyFile"];
  try {
    const key = typeof file === "string" ? readFileSync(resolve(cwd, file), "utf8").trim() : env["CGN_API_KEY"];
    return { url, key };
  } catch (e) {
    const is = e instanceof Error ? e.message : String(e);
    throw new CgnError("BAD_INVOCATION", `Cannot read --key-file: ${is}. Name a file with one key`, {});
  }
}

async function chat(
  name: string | undefined,
  words: readonly string[],
  endpoint: ChatEndpoint,
  options: Values,
  cli: CliContext,
): Promise<number> {
  const model = name ?? (await onlyModel(endpoint, cli.signal));
  const talk = new Conversation(model, endpoint, options, cli);
  if (words.length > 0) return talk.ask(words.join(" "));
  if (process.stdin.isTTY !== true) return talk.ask(readFileSync(0, "utf8"));
  cli.err(`${model} at ${endpoint.url}. ${HELP}`);
  const lines = createInterface({ input: process.stdin, output: process.stderr, historySize: 200 });
  cli.signal.addEventListener("abort", () => lines.close());
  // Ctrl-C at the prompt ends the chat; in an answer it ends the answer.
  lines.on("SIGINT", () => (talk.isAnswering ? talk.interrupt() : lines.close()));
  lines.setPrompt("> ");
  lines.prompt();
  for await (const line of lines) {
    if (line.trim() === "/bye") break;
    if (line.trim() === "/clear") talk.clear();
    else if (line.trim() === "/help") cli.err(HELP);
    else if (line.trim() !== "") await talk.askKindly(line);
    lines.prompt();
  }
  lines.close();
  return 0;
}

/** @throws CgnError BAD_INVOCATION where there are several, or none */
async function onlyModel(endpoint: ChatEndpoint, signal: AbortSignal): Promise<string> {
  const models = await listModels(endpoint, signal);
  if (models.length === 1) return models[0]!;
  const there = models.length === 0 ? "The endpoint serves none" : `There is ${models.join(", ")}`;
  throw new CgnError("BAD_INVOCATION", `Cannot choose a model: none is named. ${there}`, {});
}

class Conversation {
  readonly #model: string;
  readonly #endpoint: ChatEndpoint;
  readonly #options: Values;
  readonly #cli: CliContext;
  #messages: ChatMessage[] = [];
  #answering: AbortController | undefined;

  constructor(model: string, endpoint: ChatEndpoint, options: Values, cli: CliContext) {
    this.#model = model;
    this.#endpoint = endpoint;
    this.#options = options;
    this.#cli = cli;
    this.clear();
  }

  get isAnswering(): boolean {
    return this.#answering !== undefined;
  }

  clear(): void {
    const { system } = this.#options;
    this.#messages = typeof system === "string" ? [{ role: "system", content: system }] : [];
  }

  interrupt(): void {
    this.#answering?.abort();
  }

  async ask(prompt: string): Promise<number> {
    const { signal, clock, err } = this.#cli;
    const max = this.#options["maxTokens"];
    this.#answering = new AbortController();
    const messages: ChatMessage[] = [...this.#messages, { role: "user", content: prompt }];
    try {
      const turn = await chatTurn(
        this.#endpoint,
        { model: this.#model, messages, ...(typeof max === "number" ? { max_tokens: max } : {}) },
        () => clock.now(),
        (text) => void process.stdout.write(text),
        AbortSignal.any([signal, this.#answering.signal]),
      );
      process.stdout.write("\n");
      this.#messages = [...messages, { role: "assistant", content: turn.text }];
      if (this.#options["quiet"] !== true) err(figures(turn));
      return 0;
    } finally {
      this.#answering = undefined;
    }
  }

  /** In a conversation what goes wrong with one answer ends that answer only. */
  async askKindly(prompt: string): Promise<void> {
    try {
      await this.ask(prompt);
    } catch (e) {
      process.stdout.write("\n");
      if (isCgnError(e)) this.#cli.err(`cgn: ${e.message}`);
      else if (!(e instanceof Error && e.name === "AbortError")) throw e;
    }
  }
}

/** `llama-1 · 812 of 830 prompt tokens cached (812 predicted) · first token 70 ms · 24 tokens, 110/s`. */
export function figures(turn: ChatTurn): string {
  const { node, prefillNode, predictedTokens, cachedTokens, promptTokens, completionTokens, firstMs, totalMs } = turn;
  const predicted = predictedTokens === undefined ? "" : ` (${predictedTokens} predicted)`;
  const cached =
    cachedTokens === undefined
      ? `cached tokens not told${predicted}`
      : `${cachedTokens} of ${promptTokens ?? "?"} prompt tokens cached${predicted}`;
  const seconds = firstMs === undefined ? 0 : (totalMs - firstMs) / 1_000;
  const rate =
    completionTokens !== undefined && completionTokens > 1 && seconds > 0
      ? `, ${Math.round((completionTokens - 1) / seconds)}/s`
      : "";
  return [
    ...(node === undefined ? [] : [prefillNode === undefined ? node : `${prefillNode} → ${node}`]),
    cached,
    ...(firstMs === undefined ? [] : [`first token ${Math.round(firstMs)} ms`]),
    ...(completionTokens === undefined ? [] : [`${completionTokens} tokens${rate}`]),
  ].join(" · ");
}
