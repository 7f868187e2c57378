import { CgnError } from "../core/errors.ts";
import { fetchText } from "../http/fetch-text.ts";
import type { CliContext, Command, Values } from "./command.ts";
import { startProgress } from "./progress.ts";

const DEFAULT_ADMIN = "http://127.0.0.1:9091";
const LOOK_MS = 200;

const NAME = { name: "NAME", about: "a model's name, or an engine's id as cgn status shows it", required: true };
const OPTIONS = {
  admin: { type: "string", value: "URL", about: "the router's admin port", default: DEFAULT_ADMIN },
  "no-wait": { type: "boolean", about: "do not wait until it is done" },
  json: { type: "boolean", about: "print the engines as JSON" },
} as const satisfies Command["options"];

/** `cgn load NAME`: load a model before anybody asks for it. */
export const loadCommand: Command = {
  name: "load",
  about: "load a model (or one engine) that is loaded on demand, without a request; what is in its way is unloaded",
  examples: ["cgn load qwen3-8b", "cgn load node1/qwen3-8b --no-wait"],
  positionals: [NAME],
  options: OPTIONS,
  run: ({ options, positionals }, cli) => ask("load", positionals[0] ?? "", options, cli),
};

/** `cgn unload NAME`: free its place. */
export const unloadCommand: Command = {
  name: "unload",
  about: "unload a model (or one engine) that is loaded on demand; requests on it end first",
  examples: ["cgn unload qwen3-8b"],
  positionals: [NAME],
  options: OPTIONS,
  run: ({ options, positionals }, cli) => ask("unload", positionals[0] ?? "", options, cli),
};

interface Worker {
  readonly id: string;
  readonly state: string;
  readonly reason: string;
}

async function ask(verb: "load" | "unload", name: string, options: Values, cli: CliContext): Promise<number> {
  const admin = String(options["admin"] ?? DEFAULT_ADMIN);
  const base = (/^https?:\/\//.test(admin) ? admin : `http://${admin}`).replace(/\/+$/, "");
  const path = `/v1/cgn/models/${encodeURIComponent(name)}/${verb}`;
  const { workers: ids } = (await call(base, path, "POST")) as { readonly workers: readonly string[] };
  const noWait = options["wait"] === false || options["noWait"] === true;
  const workers = noWait ? await look(base, ids) : await wait(verb, base, name, ids, cli);
  if (options["json"] === true) cli.out(JSON.stringify(workers, null, 2));
  else for (const { id, state, reason } of workers) cli.out(`${id}  ${state}  ${reason}`);
  return 0;
}

/** @throws CgnError ENGINE_NOT_READY when an engine failed to load */
async function wait(
  verb: "load" | "unload",
  base: string,
  name: string,
  ids: readonly string[],
  cli: CliContext,
): Promise<readonly Worker[]> {
  const bar = startProgress(`${verb} ${name}`);
  const isDone = ({ state }: Worker): boolean =>
    verb === "load" ? state === "ready" : state === "unloaded" || state === "asleep" || state === "down";
  for (;;) {
    const workers = await look(base, ids);
    const failed = workers.find(({ state, reason }) => state === "down" && reason.startsWith("given up"));
    if (verb === "load" && failed !== undefined) {
      bar.stop("failed");
      const message = `Cannot load "${name}": ${failed.id} ${failed.reason}. See cgn logs`;
      throw new CgnError("ENGINE_NOT_READY", message, { name });
    }
    if (workers.every(isDone)) {
      bar.done(workers.map(({ state }) => state).join(", "));
      return workers;
    }
    bar.update(0, workers.map(({ id, state, reason }) => `${id} ${state}: ${reason}`).join("  "));
    if (cli.signal.aborted) {
      bar.stop("goes on without this command");
      return workers;
    }
    await new Promise<void>((resolve) => cli.clock.after(LOOK_MS, resolve));
  }
}

async function look(base: string, ids: readonly string[]): Promise<readonly Worker[]> {
  const { workers } = (await call(base, "/v1/cgn/status", "GET")) as { readonly workers: readonly Worker[] };
  return workers.filter(({ id }) => ids.includes(id)).map(({ id, state, reason }) => ({ id, state, reason }));
}

/** @throws CgnError BAD_INVOCATION with the router's words for a name it refuses; DEPENDENCY_UNREACHABLE */
async function call(base: string, path: string, method: "GET" | "POST"): Promise<unknown> {
  const { status, body } = await fetchText(`${base}${path}`, { timeoutMs: 10_000, method });
  if (status === 200) return JSON.parse(body);
  if (status >= 400 && status < 500) {
    const { error } = JSON.parse(body) as { readonly error?: { readonly message?: string } };
    throw new CgnError(
      "BAD_INVOCATION",
      error?.message ?? `Cannot ask the router at ${base}: it answers ${status}`,
      {},
    );
  }
  const is = status === 0 ? "nothing answers there" : `it answers ${status}`;
  throw new CgnError(
    "DEPENDENCY_UNREACHABLE",
    `Cannot ask the router at ${base}: ${is}. Name its admin port with --admin`,
    {
      base,
    },
  );
}
