import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import type { ChatRequest } from "../core/chat-request.ts";
import { CgnError } from "../core/errors.ts";
import { rootKey } from "../core/prefix-knowledge.ts";
import { createVocabularies } from "../kvcached/vocabularies.ts";
import type { CliContext, Command, Values } from "./command.ts";
import { KV_ADDRESS_OPTIONS, kvClientFor, textTable } from "./kv-address.ts";

/** `cgn kv match`: who holds how much of a prompt. */
export const kvMatchCommand: Command = {
  name: "kv match",
  about: "ask which workers hold how much of a prompt",
  examples: [
    "cgn kv match --model m --prompt 'Once upon a time'",
    "cgn kv match --model m --chat request.json --tokenizer /models/m",
    "cgn kv match --model m --token-ids 1,2,3",
  ],
  options: {
    model: { type: "string", value: "NAME", about: "model name as clients say it" },
    prompt: { type: "string", value: "TEXT", about: "the rendered prompt" },
    "prompt-file": { type: "string", value: "FILE", about: "the rendered prompt, from a file" },
    chat: { type: "string", value: "FILE", about: "a chat completion request, rendered with --tokenizer" },
    tokenizer: { type: "string", value: "DIR", about: "folder (or GGUF) with the chat template" },
    "token-ids": {
      type: "string",
      value: "1,2,3",
      about: "token ids instead, decoded by kvcached with the model's vocabulary",
    },
    salt: { type: "string", value: "TEXT", about: "cache_salt of the request" },
    lora: { type: "string", value: "NAME", about: "adapter of the request" },
    ...KV_ADDRESS_OPTIONS,
  },
  async run({ options }, cli) {
    const model = options["model"];
    if (typeof model !== "string") throw bad("--model is missing", "Say --model NAME");
    const ids = tokenIdsOf(options);
    const prompt = ids === undefined ? await promptOf(options, cli) : undefined;
    const client = kvClientFor(options, cli);
    try {
      // A hung kvcached is an answer of nothing to a router; here it is an error.
      await client.stats();
      const root = rootKey(String(options["lora"] ?? ""), String(options["salt"] ?? ""));
      const found =
        prompt === undefined
          ? await client.matchTokens(model, root, ids ?? [])
          : await client.match({ model, root, prompt });
      const matches = [...found].sort((a, b) => b.tokens - a.tokens);
      if (options["json"]) cli.out(JSON.stringify(matches));
      else if (matches.length === 0) cli.out("no worker holds any of it");
      else {
        const rows = matches.map((m) =>
          [
            m.worker,
            m.tokens,
            m.blocks,
            prompt === undefined ? m.bytes : `${m.bytes}/${prompt.length}`,
            m.tier,
            m.source,
          ].map(String),
        );
        cli.out(textTable([["WORKER", "TOKENS", "BLOCKS", "BYTES", "TIER", "SOURCE"], ...rows]));
      }
    } finally {
      client.close();
    }
    return 0;
  },
};

function tokenIdsOf(options: Values): readonly number[] | undefined {
  const text = options["tokenIds"];
  if (typeof text !== "string") return undefined;
  const ids = text.split(",").map((part) => (part.trim() === "" ? Number.NaN : Number(part)));
  if (ids.every((id) => Number.isInteger(id) && id >= 0 && id < 2 ** 32)) return ids;
  throw bad(`--token-ids "${text}" is no list of token ids`, "Write them with commas, for example 1,2,3");
}

async function promptOf(options: Values, cli: CliContext): Promise<Uint8Array> {
  const given = ["prompt", "promptFile", "chat"].filter((name) => typeof options[name] === "string");
  if (given.length !== 1)
    throw bad(`${given.length} prompts are given`, "Say one of --prompt, --prompt-file, --chat, --token-ids");
  if (typeof options["prompt"] === "string") return new TextEncoder().encode(options["prompt"]);
  if (typeof options["promptFile"] === "string") return readFile(resolve(cli.cwd, options["promptFile"]));
  const dir = options["tokenizer"];
  if (typeof dir !== "string")
    throw bad("--tokenizer is missing", "A chat is rendered with the model's template: say --tokenizer DIR");
  const { renderer } = await createVocabularies(cli.env).of({ models: [], tokenizer: { dir: resolve(cli.cwd, dir) } });
  const request = JSON.parse(await readFile(resolve(cli.cwd, String(options["chat"])), "utf8")) as ChatRequest;
  const rendered = renderer?.render(request) ?? { reason: "the model has no chat template" };
  if ("bytes" in rendered) return rendered.bytes;
  throw bad(rendered.reason, "Give the rendered prompt with --prompt-file");
}

function bad(is: string, right: string): CgnError {
  return new CgnError("BAD_INVOCATION", `Cannot match: ${is}. ${right}`, {}) as CgnError;
}
