import { join } from "node:path";
import type { RealEngine } from "../../src/cli/demo/real-engine.ts";
import { LAUNCHERS } from "../../src/cli/places.ts";
import { freePorts, scratch, startCgn, until } from "../helpers/cgn-process.ts";
import { chat } from "../helpers/up.ts";

export interface AlternateOptions {
  readonly seconds: number;
  readonly clients: number;
  readonly minResidencyS: number;
  /** How long a simulated engine loads. Undefined: two real llama-servers with `engine`. */
  readonly loadS?: number;
  readonly engine?: RealEngine;
  /** `[engine.vllm].sleep` */
  readonly sleep?: 1 | 2;
}

/** What came of requests that alternate between two models of one GPU set. */
export interface AlternateFigures {
  readonly requests: number;
  readonly answered: number;
  /** What each request that was not answered whole said. */
  readonly failures: readonly string[];
  readonly loads: number;
  /** The most that the least residency allows in this time. */
  readonly mostLoads: number;
  /** Requests that ended on an engine otherwise than well, as the router counted them. */
  readonly cut: number;
  /** Both loaded at once, at some look. */
  readonly overlaps: number;
  readonly seconds: number;
  readonly longestWaitS: number;
}

const MODELS = ["alpha", "beta"] as const;

/** Clients that ask two models of one GPU set in turn. */
export function alternate(options: AlternateOptions): Promise<AlternateFigures> {
  return withPair(options, (pair) => run(options, pair.url, pair.admin));
}

/** Two models that share GPU 0 (or a group, for real engines on a CPU) behind `cgn up`, for as long as `use` takes. */
export async function withPair<T>(
  options: Omit<AlternateOptions, "seconds" | "clients">,
  use: (pair: { readonly url: string; readonly admin: string; readonly output: () => string }) => Promise<T>,
): Promise<T> {
  const [http = 0, admin = 0, one = 0, two = 0] = await freePorts(4);
  const place = scratch();
  const toml = config(options, { http, admin, one, two }, place.dir);
  const file = place.file("cgn.toml", toml);
  const up = startCgn(["up", "--config", file], { XDG_RUNTIME_DIR: place.dir, XDG_STATE_HOME: place.dir }, place.dir);
  try {
    const words = (): string => {
      if (up.child.exitCode !== null) throw new Error(`cgn up ended\n${up.output()}`);
      return up.output();
    };
    // A busy machine starts two engines in more than half a minute.
    await until("the endpoint", 120_000, () => (words().includes("Endpoint ") ? true : undefined), up.output);
    return await use({ url: `http://127.0.0.1:${http}`, admin: `http://127.0.0.1:${admin}`, output: up.output });
  } catch (e) {
    throw new Error(`${String(e)}; cgn up (exit ${up.child.exitCode}) said:\n${up.output()}`, { cause: e });
  } finally {
    up.child.kill("SIGTERM");
    await up.exit;
    place.dispose();
  }
}

function config(
  o: Omit<AlternateOptions, "seconds" | "clients">,
  ports: { http: number; admin: number; one: number; two: number },
  dir: string,
): string {
  const text = JSON.stringify;
  const head = `[router]
listen_http = "127.0.0.1:${ports.http}"
listen_admin = "127.0.0.1:${ports.admin}"

[agent]
state_dir = ${text(dir)}

[swap]
min_residency = "${o.minResidencyS * 1000}ms"
keep_alive = "1s"
`;
  const engine = o.engine;
  const model = (name: string): string =>
    `\n[models.${name}]\n${engine === undefined ? 'tokenizer = "bytes"' : `path = ${text(engine.gguf)}`}\n`;
  const simulated = `kind = "vllm"
gpus = [0]

[engines.vllm]
binary = ${text(join(LAUNCHERS, "sim-vllm.mjs"))}
extra_args = ["--sim-profile", "cpu-small", "--sim-load-seconds", "${o.loadS ?? 1}"]
${o.sleep === undefined ? "" : `sleep = ${o.sleep}\n`}`;
  const real = `kind = "llama_cpp"
group = "cpu"

[engines.llama_cpp]
mode = "xllamacpp"
binary = ${text(engine?.python ?? "")}
n_ctx = 4096
n_threads = 1
`;
  const group = engine === undefined ? "" : "\n[swap.groups.cpu]\n";
  const engines = MODELS.map((name, n) => {
    const url = `http://127.0.0.1:${n === 0 ? ports.one : ports.two}`;
    return `\n[[engines]]\nmodel = "${name}"\nurl = "${url}"\n${engine === undefined ? simulated : real}`;
  });
  return head + group + MODELS.map(model).join("") + engines.join("");
}

async function run(o: AlternateOptions, url: string, admin: string): Promise<AlternateFigures> {
  const startedMs = performance.now();
  const endMs = startedMs + o.seconds * 1_000;
  const failures: string[] = [];
  let requests = 0;
  let longestMs = 0;
  const client = async (n: number): Promise<void> => {
    for (let turn = 0; performance.now() < endMs; turn++) {
      const sentMs = performance.now();
      const failure = await ask(url, MODELS[(n + turn) % 2]!, n, turn);
      requests++;
      longestMs = Math.max(longestMs, performance.now() - sentMs);
      if (failure !== undefined) failures.push(failure);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };
  const watch = watchStates(admin);
  await Promise.all(Array.from({ length: o.clients }, (_, n) => client(n)));
  const seconds = (performance.now() - startedMs) / 1_000;
  const overlaps = await watch.stop();
  const metrics = await (await fetch(`${admin}/metrics`)).text();
  const loadS = o.sleep === undefined ? (o.loadS ?? 0) : 0;
  return {
    requests,
    answered: requests - failures.length,
    failures: failures.slice(0, 5),
    loads: sum(metrics, /^cgn_agent_engine_loads_total\{.*\} (\d+)$/gm),
    mostLoads: Math.floor(2 + seconds / (o.minResidencyS + loadS)),
    cut: sum(metrics, /^cgn_router_worker_requests_total\{.*outcome="(?:upstream_error|retried)".*\} (\d+)$/gm),
    overlaps,
    seconds: Math.round(seconds * 10) / 10,
    longestWaitS: Math.round(longestMs / 100) / 10,
  };
}

/** @returns what is wrong with the answer */
async function ask(url: string, model: string, client: number, turn: number): Promise<string | undefined> {
  const stream = (client + turn) % 3 > 0;
  const messages = [{ role: "user", content: `Client ${client} asks for the ${turn}th time.` }];
  // Some answers are long, so that a swap meets them in the middle.
  const body = { model, stream, max_tokens: turn % 4 === 0 ? 48 : 6, messages };
  try {
    const reply = await chat(url, body);
    const whole = reply.status === 200 && reply.finished && reply.error === undefined && reply.text.length > 0;
    return whole ? undefined : `${model}: ${reply.status} ${reply.error ?? "not whole"}`;
  } catch (e) {
    return `${model}: ${e instanceof Error ? e.message : String(e)}`;
  }
}

/** Looks again and again whether both are ready at once. */
function watchStates(admin: string): { stop(): Promise<number> } {
  let overlaps = 0;
  let running = true;
  let failure: Error | undefined;
  const looking = (async () => {
    while (running) {
      const reply = await fetch(`${admin}/v1/cgn/status`).catch((e: unknown) => e as Error);
      if (reply instanceof Error) {
        failure = reply;
        return;
      }
      const { workers } = (await reply.json()) as { workers: { state: string }[] };
      const there = workers.filter(({ state }) => state === "ready" || state === "starting" || state === "draining");
      if (there.length > 1) overlaps++;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  })();
  return {
    async stop() {
      running = false;
      await looking;
      if (failure !== undefined) throw failure;
      return overlaps;
    },
  };
}

const sum = (text: string, pattern: RegExp): number =>
  [...text.matchAll(pattern)].reduce((total, found) => total + Number(found[1]), 0);
