import { CgnError } from "../core/errors.ts";
import { ADMIN_OPTIONS, askAdmin, postAdmin } from "./admin-client.ts";
import type { CliContext, Command, Values } from "./command.ts";
import { startProgress } from "./progress.ts";

const LOOK_MS = 200;

const NAME = { name: "NAME", about: "a model's name, or an engine's id as cgn status shows it", required: true };
const OPTIONS = {
  ...ADMIN_OPTIONS,
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
  const path = `/v1/cgn/models/${encodeURIComponent(name)}/${verb}`;
  const { workers: ids } = JSON.parse(await postAdmin(path, options, cli)) as { readonly workers: readonly string[] };
  const noWait = options["wait"] === false || options["noWait"] === true;
  const workers = noWait ? await look(ids, options, cli) : await wait(verb, name, ids, options, cli);
  if (options["json"] === true) cli.out(JSON.stringify(workers, null, 2));
  else for (const { id, state, reason } of workers) cli.out(`${id}  ${state}  ${reason}`);
  return 0;
}

/** @throws CgnError ENGINE_NOT_READY when an engine failed to load */
async function wait(
  verb: "load" | "unload",
  name: string,
  ids: readonly string[],
  options: Values,
  cli: CliContext,
): Promise<readonly Worker[]> {
  const bar = startProgress(`${verb} ${name}`);
  const isDone = ({ state }: Worker): boolean =>
    verb === "load" ? state === "ready" : state === "unloaded" || state === "asleep" || state === "down";
  for (;;) {
    const workers = await look(ids, options, cli);
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

async function look(ids: readonly string[], options: Values, cli: CliContext): Promise<readonly Worker[]> {
  const { workers } = JSON.parse(await askAdmin("/v1/cgn/status", options, cli)) as {
    readonly workers: readonly Worker[];
  };
  return workers.filter(({ id }) => ids.includes(id)).map(({ id, state, reason }) => ({ id, state, reason }));
}
