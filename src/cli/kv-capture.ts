import { resolve } from "node:path";
import { ENGINE_KINDS, type EngineKind } from "../core/engine-kind.ts";
import { CgnError } from "../core/errors.ts";
import type { KvSource } from "../core/worker.ts";
import { askEventSource, startCapture } from "../kvcached/capture.ts";
import { createVocabularies } from "../kvcached/vocabularies.ts";
import { type CliContext, type Command, MAX_SECONDS, type Values } from "./command.ts";

/** `cgn kv capture`: record what an engine publishes and reports, to verify predictions with. */
export const kvCaptureCommand: Command = {
  name: "kv capture",
  about: "record an engine's KV events and the chats sent to it, for cgn kv verify",
  examples: [
    "cgn kv capture --engine http://127.0.0.1:8000 --out capture/ --tokenizer /models/m",
    "cgn kv capture --engine http://127.0.0.1:8000 --out capture/ --with-content --seconds 60",
  ],
  options: {
    engine: { type: "string", value: "URL", about: "base URL of the engine" },
    out: { type: "string", value: "DIR", about: "folder for the capture" },
    listen: {
      type: "string",
      value: "HOST:PORT",
      default: "127.0.0.1:0",
      about: "where requests to record are sent to (port 0: any)",
    },
    kind: { type: "string", value: "KIND", choices: ENGINE_KINDS, about: "engine kind (default: asked)" },
    events: { type: "string", value: "ENDPOINT", about: "KV event endpoint (default: asked)" },
    replay: { type: "string", value: "ENDPOINT", about: "replay endpoint (default: asked)" },
    topic: { type: "string", value: "TOPIC", default: "", about: "topic of the events, with --events" },
    tokenizer: { type: "string", value: "DIR", about: "folder (or GGUF) of the model, to hash what is recorded" },
    "with-content": { type: "boolean", about: "keep token ids and prompts as they are, instead of salted hashes" },
    seconds: {
      type: "number",
      value: "N",
      min: 0.001,
      max: MAX_SECONDS,
      about: "end after so long (default: at Ctrl-C)",
    },
  },
  async run({ options }, cli) {
    const engine = needed(options, "engine", "--engine URL").replace(/\/+$/, "");
    const out = resolve(cli.cwd, needed(options, "out", "--out DIR"));
    const tokenizer = options["tokenizer"];
    const content = options["withContent"] === true;
    if (!content && typeof tokenizer !== "string") {
      throw bad(
        "prompts and token ids are content",
        "Say --tokenizer DIR to keep salted hashes, or --with-content to keep them",
      );
    }
    const source = await sourceOf(options, engine);
    const redactWith = content
      ? undefined
      : await createVocabularies(cli.env).of({ models: [], tokenizer: { dir: resolve(cli.cwd, String(tokenizer)) } });
    const listen = hostPort(String(options["listen"] ?? "127.0.0.1:0"));
    const capture = await startCapture({ engine, ...source, out, listen, redactWith, clock: cli.clock });
    cli.err(
      `capturing ${source.kv.endpoint} to ${out}; send requests to http://${listen.host}:${capture.port} (Ctrl-C ends)`,
    );
    await ended(cli, typeof options["seconds"] === "number" ? options["seconds"] * 1000 : undefined);
    const { frames, requests, reported } = capture.counts();
    await capture.close();
    cli.err(`${frames} event messages, ${requests} chats, ${reported} of them with reported cached tokens`);
    if (requests > reported) {
      cli.err("Those without: let the engine report prompt token details, and ask for usage when streaming");
    }
    return 0;
  },
};

async function sourceOf(
  options: Values,
  engine: string,
): Promise<{ kind: EngineKind; kv: Extract<KvSource, { type: "events" }> }> {
  const kind = ENGINE_KINDS.find((name) => name === options["kind"]);
  const { events, replay, topic } = options;
  if (typeof events !== "string") return askEventSource(engine, kind);
  if (kind === undefined)
    throw bad("--events is given without --kind", "Say --kind KIND: it decides how events are read");
  const common = { type: "events" as const, endpoint: events, topic: String(topic ?? ""), dpRank: 0 };
  return { kind, kv: typeof replay === "string" ? { ...common, replay } : common };
}

function ended(cli: CliContext, afterMs: number | undefined): Promise<void> {
  return new Promise((done) => {
    if (cli.signal.aborted) done();
    const cancel = afterMs === undefined ? () => {} : cli.clock.after(afterMs, done);
    cli.signal.addEventListener(
      "abort",
      () => {
        cancel();
        done();
      },
      { once: true },
    );
  });
}

function hostPort(text: string): { host: string; port: number } {
  const [, host, port] = /^(.+):(\d{1,5})$/.exec(text) ?? [];
  if (host === undefined || Number(port) > 65_535)
    throw bad(`--listen is "${text}"`, "Say HOST:PORT, for example 127.0.0.1:0");
  return { host, port: Number(port) };
}

function needed(options: Values, name: string, flag: string): string {
  const value = options[name];
  if (typeof value === "string" && value !== "") return value;
  throw bad(`${flag.split(" ")[0]} is missing`, `Say ${flag}`);
}

function bad(is: string, right: string): CgnError {
  return new CgnError("BAD_INVOCATION", `Cannot capture: ${is}. ${right}`, {}) as CgnError;
}
