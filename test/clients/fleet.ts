import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import type { RealEngine } from "../../src/cli/demo/real-engine.ts";
import { LAUNCHERS } from "../../src/cli/places.ts";
import { type CgnProcess, freePorts, scratch, startCgn, until } from "../helpers/cgn-process.ts";
import { readyWorkers } from "../helpers/up.ts";
import { type ScriptedEngine, startScripted } from "./scripted-engine.ts";

/** What a model's engine can really do: simulated ones answer, but call no tools and keep to no grammar. */
export interface Target {
  /** The model's name at the router, and who is behind it. */
  readonly model: string;
  readonly real: boolean;
  /** The engine has chat completions only: the other APIs are converted. */
  readonly chatOnly: boolean;
}

/** A router before engines of every kind. */
export interface ClientFleet {
  /** Without `/v1`. */
  readonly url: string;
  readonly targets: readonly Target[];
  /** The model that does what it is told (`startScripted()`). */
  readonly scripted: string;
  readonly engine: ScriptedEngine;
  /** A model that embeds; undefined without a real engine. */
  readonly embedder: string | undefined;
  close(): Promise<void>;
}

/** Engines of a real model load it first; on a busy machine that takes a while. */
const START_MS = 180_000;
/** So much of an engine's last words is shown. */
const WORDS = 1_000;

/** Start the engines, and one router before all of them. */
export async function startFleet(real: RealEngine | undefined): Promise<ClientFleet> {
  const place = scratch();
  const [http = 0, admin = 0, vllm = 0, sglang = 0, llama = 0, embed = 0] = await freePorts(6);
  const started: Started[] = [];
  const engine = await startScripted();
  let router: CgnProcess | undefined;
  const close = async (): Promise<void> => {
    for (const child of [...started.map((each) => each.child), ...(router === undefined ? [] : [router.child])])
      child.kill("SIGKILL");
    await router?.exit;
    await engine.close();
    place.dispose();
  };
  const sim = (kind: "vllm" | "sglang", port: number): string => {
    started.push(start(`sim-${kind}`, process.execPath, join(LAUNCHERS, `sim-${kind}.mjs`), simArgs(kind, port)));
    return `http://127.0.0.1:${port},kind=${kind},model=${kind},tokenizer=bytes`;
  };
  const engines = [
    sim("vllm", vllm),
    sim("sglang", sglang),
    `${engine.url},kind=openai_compat,model=scripted`,
    ...(real === undefined ? [] : realEngines(real, llama, embed, started)),
  ];
  const args = ["router", "--listen", `127.0.0.1:${http}`, "--admin", `127.0.0.1:${admin}`];
  router = startCgn([...args, ...engines.flatMap((e) => ["--engine", e])], { XDG_STATE_HOME: place.dir }, place.dir);
  try {
    await until(
      "engines ready",
      START_MS,
      async () => ((await readyWorkers(`http://127.0.0.1:${admin}`)) >= engines.length ? true : undefined),
      () => [router!.output(), ...started.map(({ name, said }) => `${name}: ${said.slice(-WORDS)}`)].join("\n"),
    );
  } catch (e) {
    await close();
    throw e;
  }
  const target = (model: string, isReal: boolean, chatOnly = false): Target => ({ model, real: isReal, chatOnly });
  const targets = [target("vllm", false), target("sglang", false), target("scripted", false, true)];
  if (real !== undefined) targets.push(target("llama", true), target("chat-only", true, true));
  return {
    url: `http://127.0.0.1:${http}`,
    targets,
    scripted: "scripted",
    engine,
    embedder: real === undefined ? undefined : "embed",
    close,
  };
}

/** An engine's process, and what it said so far. */
interface Started {
  readonly name: string;
  readonly child: ChildProcess;
  said: string;
}

function start(name: string, command: string, script: string, args: readonly string[]): Started {
  const env = { ...process.env, NO_COLOR: "1" };
  const child = spawn(command, [script, ...args], { stdio: ["ignore", "pipe", "pipe"], env });
  const one: Started = { name, child, said: "" };
  const hear = (chunk: Buffer): void => void (one.said = (one.said + chunk.toString()).slice(-2 * WORDS));
  child.stdout.on("data", hear);
  child.stderr.on("data", hear);
  child.once("exit", (code, signal) => hear(Buffer.from(`\n(ended: ${code ?? signal})`)));
  return one;
}

function simArgs(kind: "vllm" | "sglang", port: number): string[] {
  const common = ["--port", String(port), "--sim-profile", "instant"];
  if (kind === "sglang") return ["--model-path", "sim", "--served-model-name", kind, ...common];
  return ["serve", "sim", "--served-model-name", kind, "--enable-prompt-tokens-details", ...common];
}

/** One llama-server under two names: once as itself, once as an engine that has chat completions only; and one that embeds. */
function realEngines(real: RealEngine, port: number, embedPort: number, started: Started[]): string[] {
  const script = join(LAUNCHERS, "xllamacpp_server.py");
  const args = (at: number) => ["--model", real.gguf, "--port", String(at), "-t", "1", "-c", "8192", "-np", "4"];
  started.push(start("llama-server", real.python, script, [...args(port), "--alias", "llama"]));
  const embeds = ["--alias", "embed", "--embeddings", "--pooling", "mean"];
  started.push(start("llama-server (embed)", real.python, script, [...args(embedPort), ...embeds]));
  return [
    `http://127.0.0.1:${port},kind=llama_cpp,model=llama,tokenizer=${real.gguf}`,
    `http://localhost:${port},kind=mlx,model=chat-only,tokenizer=${real.gguf}`,
    `http://127.0.0.1:${embedPort},kind=llama_cpp,model=embed,tokenizer=${real.gguf}`,
  ];
}
