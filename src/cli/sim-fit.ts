import { randomInt } from "node:crypto";
import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { CgnError } from "../core/errors.ts";
import { fitEngine } from "../sim/profiles/fit-engine.ts";
import { formatProfile } from "../sim/profiles/profile-file.ts";
import type { CliContext, Command } from "./command.ts";
import { startProgress } from "./progress.ts";
import { stopCode } from "./stop-code.ts";

/** `cgn sim fit`: measure a running engine, so that it can be simulated. */
export const simFitCommand: Command = {
  name: "sim fit",
  about: "measure a running engine for some minutes and write the profile that simulates it",
  examples: [
    "cgn sim fit --url http://127.0.0.1:8000 --out my-gpu.json",
    "cgn sim fit --url http://127.0.0.1:8080 --quick --max-sequences 4 --out laptop.json",
    "cgn replay trace.jsonl --profile ./my-gpu.json",
  ],
  options: {
    url: { type: "string", value: "URL", about: "the engine; it should have nothing else to do meanwhile" },
    model: { type: "string", value: "NAME", about: "model name to ask for (default: the first that it serves)" },
    out: { type: "string", value: "FILE", about: "where the profile goes (default: stdout)" },
    name: { type: "string", value: "NAME", about: "the profile's name (default: the model's)" },
    quick: { type: "boolean", about: "fewer points, for a first idea" },
    "max-prompt": {
      type: "number",
      value: "TOKENS",
      default: 2048,
      whole: true,
      min: 128,
      max: 1_000_000,
      about: "longest prompt to send",
    },
    "max-sequences": {
      type: "number",
      value: "N",
      default: 16,
      whole: true,
      min: 1,
      max: 4096,
      about: "most requests at once; llama-server: its slots",
    },
    "kv-bytes": {
      type: "number",
      value: "BYTES",
      whole: true,
      min: 1,
      max: 100_000_000,
      about: "bytes of keys and values a token, for offload and transfer; an engine does not tell",
    },
    "api-key-env": { type: "string", value: "NAME", about: "environment variable with the engine's key" },
  },
  async run({ options }, cli) {
    const url = urlOf(options["url"]);
    const keyName = options["apiKeyEnv"];
    const apiKey = typeof keyName === "string" ? cli.env[keyName] : undefined;
    const model = typeof options["model"] === "string" ? options["model"] : await servedModel(url, apiKey, cli);
    const bar = startProgress("measuring");
    const engine = { url, model, apiKey, clock: cli.clock, signal: cli.signal };
    try {
      const { profile, fit } = await fitEngine(engine, {
        name: typeof options["name"] === "string" ? options["name"] : model,
        quick: options["quick"] === true,
        maxPromptTokens: Number(options["maxPrompt"]),
        maxSequences: Number(options["maxSequences"]),
        kvBytesPerToken: options["kvBytes"] as number | undefined,
        random: () => randomInt(2 ** 32) / 2 ** 32,
        onProgress: (share, note) => bar.update(share, note),
      });
      bar.done(
        `prompts off by ${fit.prefillErrorPercent.toFixed(1)} %, answers by ${fit.decodeErrorPercent.toFixed(1)} %`,
      );
      write(formatProfile(profile), options["out"], cli);
      return 0;
    } catch (e) {
      bar.stop(cli.signal.aborted ? "stopped" : "failed");
      if (cli.signal.aborted) return stopCode(cli.signal);
      if (e instanceof RangeError)
        throw new CgnError("UPSTREAM_FAILED", `Cannot measure ${url}: ${e.message}`, { url });
      throw e;
    }
  },
};

function urlOf(given: unknown): string {
  if (typeof given === "string" && URL.canParse(given) && /^https?:/.test(given)) return given.replace(/\/+$/, "");
  const what = given === undefined ? "no engine is named" : `"${String(given)}" is no http URL`;
  throw new CgnError("BAD_INVOCATION", `Cannot measure: ${what}. Say --url http://HOST:PORT`, {});
}

function write(text: string, out: unknown, cli: CliContext): void {
  if (typeof out !== "string") {
    cli.out(text.trimEnd());
    return;
  }
  writeFileSync(resolve(cli.cwd, out), text);
  cli.err(`Written: ${out}. Use it with --profile ${/[/\\]|\.json$/.test(out) ? out : `./${out}`}`);
}

/** @throws CgnError UPSTREAM_FAILED when it does not say */
async function servedModel(url: string, apiKey: string | undefined, cli: CliContext): Promise<string> {
  try {
    const res = await fetch(`${url}/v1/models`, {
      headers: apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` },
      signal: cli.signal,
    });
    const id: unknown = res.ok ? (await res.json())?.data?.[0]?.id : undefined;
    if (typeof id === "string") return id;
    throw new Error(`/v1/models answers ${res.status}`);
  } catch (e) {
    const why = e instanceof Error ? String(e.cause ?? e.message) : String(e);
    const remedy = "Is it running? Else name the model with --model";
    throw new CgnError("UPSTREAM_FAILED", `Cannot ask ${url} for its models: ${why}. ${remedy}`, { url });
  }
}
