import { existsSync, lstatSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { isAbsolute, join, relative, resolve } from "node:path";
import { loadConfig } from "../config/load.ts";
import { formatProblem, problemsError } from "../config/problems.ts";
import { ENGINE_KINDS } from "../core/engine-kind.ts";
import { CgnError } from "../core/errors.ts";
import { KV_OFFLOADS, parseKvOffload } from "../core/kv-offload.ts";
import { ENGINES } from "../engines/registry.ts";
import { type CliContext, type Command, PORT, type Values } from "./command.ts";
import { askAtTerminal, DEFAULTS } from "./init/asker.ts";
import type { Choices } from "./init/choices.ts";
import { askEngine } from "./init/find-running.ts";
import { firstFile } from "./init/first-file.ts";
import { lookAtHost } from "./init/look.ts";
import { askAll, type Given, readGpus } from "./init/questions.ts";

/** `cgn init`: a first configuration for what this host has. */
export const initCommand: Command = {
  name: "init",
  about: "write a first cgn.toml for the engines, models and GPUs of this host: asks, or takes flags",
  examples: [
    "cgn init",
    "cgn init --yes",
    "cgn init --engine llama_cpp --model ./model.gguf --yes",
    "cgn init --url http://127.0.0.1:11434 --yes --print",
  ],
  options: {
    engine: { type: "string", value: "KIND", about: "the engine that cgn starts", choices: ENGINE_KINDS },
    url: { type: "string", value: "URL", about: "an engine that runs already: it is watched, never started" },
    model: { type: "string", value: "MODEL", about: "a .gguf file, a folder, or a name on the Hugging Face hub" },
    name: { type: "string", value: "NAME", about: "the name that clients use for the model" },
    binary: { type: "string", value: "PROGRAM", about: "the engine's program, where PATH does not lead to it" },
    gpus: { type: "string", value: "LIST", about: "which GPUs the engine gets, for example 0,1" },
    "kv-offload": { type: "string", value: "OFFLOAD", about: "where KV cache goes", choices: KV_OFFLOADS },
    port: { ...PORT, about: "port of the endpoint" },
    "engine-port": { ...PORT, about: "port of the engine itself" },
    output: { type: "string", value: "FILE", about: "where to write", default: "cgn.toml" },
    yes: { type: "boolean", about: "ask nothing: take what is proposed for all that no flag says" },
    print: { type: "boolean", about: "print the file, write nothing" },
    force: { type: "boolean", about: "replace a file that is there" },
  },
  async run({ options }, cli) {
    const file = resolve(cli.cwd, String(options["output"]));
    const isAsked = options["yes"] !== true;
    if (isAsked && process.stdin.isTTY !== true) {
      const should = "Add --yes to take what is proposed for this host, with flags for what should be otherwise";
      throw new CgnError("BAD_INVOCATION", `Cannot ask: the input is no terminal. ${should}`, {});
    }
    // Told before anything is asked; `writeFirst()` looks again.
    if (options["print"] !== true && options["force"] !== true) refuseIfThere(file);
    const given = await givenOf(options, cli);
    cli.err("Looking at this host: engines, models, GPUs, ports");
    const look = await lookAtHost(cli.env, cli.cwd);
    for (const line of look.silent) cli.err(`warning: ${line}`);
    const asker = isAsked
      ? askAtTerminal({
          input: process.stdin,
          write: (text) => void process.stderr.write(text),
          signal: cli.signal,
        })
      : DEFAULTS;
    let choices: Choices;
    try {
      choices = await askAll(asker, given, look);
    } finally {
      asker.close();
    }
    const { target = "" } = choices;
    if (isAbsolute(target) && !existsSync(target)) cli.err(`warning: there is no ${target} on this host`);
    const text = firstFile(choices);
    for (const warning of checked(text, cli)) cli.err(warning);
    if (options["print"] === true) {
      cli.out(text.trimEnd());
      return 0;
    }
    writeFirst(file, text, options["force"] === true);
    sayNext(file, cli);
    return 0;
  },
};

/** @throws CgnError BAD_INVOCATION, DEPENDENCY_UNREACHABLE */
async function givenOf(options: Values, { cwd }: Pick<CliContext, "cwd">): Promise<Given> {
  const text = (name: string): string | undefined => (typeof options[name] === "string" ? options[name] : undefined);
  const number = (name: string): number | undefined => (typeof options[name] === "number" ? options[name] : undefined);
  const gpus = text("gpus");
  if (gpus !== undefined && readGpus(gpus) === undefined)
    throw new CgnError("BAD_INVOCATION", `Cannot read --gpus "${gpus}". Write for example --gpus 0,1`, {});
  const url = text("url");
  const kind = text("engine");
  const offload = text("kvOffload");
  const all = {
    engine: kind === undefined ? undefined : ENGINES.find((each) => each.kind === kind),
    model: text("model"),
    name: text("name"),
    running: url === undefined ? undefined : await runningAt(url, kind),
    binary: text("binary"),
    port: number("port"),
    enginePort: number("enginePort"),
    gpus: gpus === undefined ? undefined : readGpus(gpus),
    offload: offload === undefined ? undefined : parseKvOffload(offload),
    cwd,
  };
  if (all.engine?.spawns === false && all.running === undefined)
    throw new CgnError("BAD_INVOCATION", `Cannot start ${kind}: somebody else runs it. Say where with --url`, {});
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined)) as unknown as Given;
}

async function runningAt(url: string, kind: string | undefined): Promise<Given["running"]> {
  const base = url.replace(/\/+$/, "").replace(/\/v1$/, "");
  if (!/^https?:\/\//.test(base) || !URL.canParse(base)) {
    const should = "Write for example --url http://127.0.0.1:8000";
    throw new CgnError("BAD_INVOCATION", `Cannot read --url "${url}": it is no address. ${should}`, {});
  }
  const found = await askEngine(base);
  if ("is" in found)
    throw new CgnError("DEPENDENCY_UNREACHABLE", `Cannot adopt ${base}: ${found.is}. ${found.should}`, {});
  return { ...found, kind: ENGINE_KINDS.find((each) => each === kind) ?? found.kind };
}

/** @throws CgnError BAD_INVOCATION */
function refuseIfThere(file: string): void {
  if (lstatSync(file, { throwIfNoEntry: false }) === undefined) return;
  throw new CgnError("BAD_INVOCATION", `Cannot write ${file}: it is there already. Add --force to replace it`, {});
}

/**
 * What `cgn check` says of a file that is not written yet: its warnings as lines.
 * @throws CgnError CONFIG_INVALID: flags that do not go together, such as an offload that the engine does not have
 */
function checked(text: string, cli: CliContext): string[] {
  const dir = mkdtempSync(join(tmpdir(), "cgn-init-"));
  try {
    const path = join(dir, "cgn.toml");
    writeFileSync(path, text);
    const { problems } = loadConfig({ path, env: cli.env, cwd: cli.cwd });
    const plain = problems.map(({ file: _, line: __, column: ___, ...problem }) => problem);
    const errors = plain.filter(({ severity }) => severity === "error");
    if (errors.length > 0) throw problemsError("what was chosen", errors);
    return plain.map(formatProblem);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

/** @throws CgnError BAD_INVOCATION where the file came meanwhile, STORAGE_UNUSABLE where it cannot be written */
function writeFirst(file: string, text: string, isForced: boolean): void {
  try {
    if (!isForced) {
      writeFileSync(file, text, { flag: "wx" });
      return;
    }
    const beside = `${file}.${process.pid}`;
    writeFileSync(beside, text);
    renameSync(beside, file);
  } catch (e) {
    if ((e as NodeJS.ErrnoException).code === "EEXIST") refuseIfThere(file);
    const said = e instanceof Error ? e.message : String(e);
    const message = `Cannot write ${file}: ${said}. Name another place with --output`;
    throw new CgnError("STORAGE_UNUSABLE", message, { file });
  }
}

function sayNext(file: string, { cwd, err }: CliContext): void {
  const name = relative(cwd, file);
  const config = name === "cgn.toml" ? "" : ` --config ${name.startsWith("..") ? file : name}`;
  err(`\nWrote ${file}. Next:`);
  err(`  cgn check --host --fix${config}   what this host lacks for it`);
  err(`  cgn up${config}                   start it`);
}
