import { existsSync } from "node:fs";
import { isAbsolute, resolve } from "node:path";
import { CgnError } from "../../core/errors.ts";
import type { KvOffload } from "../../core/kv-offload.ts";
import type { Engine } from "../../engines/engine.ts";
import { ENGINES, findEngine } from "../../engines/registry.ts";
import { acceptedOffloads } from "../../engines/table.ts";
import type { GpuState } from "../../process/host/host-state.ts";
import type { Asker, Choice } from "./asker.ts";
import { type Choices, gpusFor, OFFLOAD_REASONS, proposedOffload } from "./choices.ts";
import { type InstalledEngine, installOf } from "./find-engines.ts";
import { type FoundModel, modelName } from "./find-models.ts";
import type { RunningEngine } from "./find-running.ts";

/** What was seen of this host. */
export interface HostLook {
  readonly installed: readonly InstalledEngine[];
  readonly running: readonly RunningEngine[];
  /** What did not answer in time, a sentence each: what is not found may be there. */
  readonly silent: readonly string[];
  readonly models: readonly FoundModel[];
  readonly gpus: readonly GpuState[];
  readonly memoryBytes: number;
  /** The first free port from this one on, none of `taken`. */
  freePort(from: number, taken: readonly number[]): Promise<number>;
  /** The layout of weights that an engine loads. */
  layoutOf(engine: Engine): "folder" | "gguf" | "any";
}

/** What the command line says already; the rest is asked. */
export interface Given {
  readonly engine?: Engine;
  readonly model?: string;
  readonly name?: string;
  /** An engine that runs; it was asked what it is. */
  readonly running?: RunningEngine;
  readonly binary?: string;
  readonly port?: number;
  readonly enginePort?: number;
  readonly gpus?: readonly number[];
  readonly offload?: KvOffload;
  readonly cwd: string;
}

const ENDPOINT_PORT = 8080;
const ADMIN_PORT = 9091;
const GIB = 1024 ** 3;

type Start =
  | { readonly running: RunningEngine }
  | { readonly installed: InstalledEngine }
  | { readonly missing: Engine };

/** Ask for everything that a first file says. @throws CgnError CALLER_LEFT; BAD_INVOCATION, ENGINE_NOT_FOUND without a terminal */
export async function askAll(ask: Asker, given: Given, look: HostLook): Promise<Choices> {
  const start = await askEngine(ask, given, look);
  if ("running" in start) return adopt(ask, given, look, start.running);
  const installed = "installed" in start ? start.installed : undefined;
  const engine = installed?.engine ?? ("missing" in start ? start.missing : undefined)!;
  const model = await askModel(ask, given, look, engine);
  const name = given.name ?? (await ask.text("The name that clients use for it", model.name));
  const gpus = await askGpus(ask, given, look, model.bytes);
  const offload = await askOffload(ask, given, look, engine, installed, gpus.length > 0);
  const ports = await askPorts(ask, given, look);
  const usual = engine.defaultPort(engine.schema.parse({}));
  const free = await look.freePort(given.enginePort ?? usual, [ports.port, ports.adminPort]);
  const enginePort = given.enginePort ?? (await askPort(ask, "Port of the engine itself", free));
  const options = {
    ...(installed?.options ?? engine.installs?.[0] ?? {}),
    ...(given.binary === undefined ? {} : { binary: given.binary }),
    ...(gpus.length > 0 ? engine.onGpu : {}),
  };
  const hasGpus = look.gpus.length > 0;
  return { engine, options, name, target: model.target, enginePort, gpus, hasGpus, offload, ...ports };
}

async function adopt(ask: Asker, given: Given, look: HostLook, running: RunningEngine): Promise<Choices> {
  const [first = "", ...others] = running.models;
  const name =
    given.name ??
    (others.length === 0
      ? first
      : await ask.choose(
          `Which model of ${running.url}?`,
          running.models.map((model) => ({ label: model, value: model })),
        ));
  const engine = findEngine(running.kind);
  const ports = await askPorts(ask, given, look);
  return { engine, options: {}, name, url: running.url, gpus: [], hasGpus: false, offload: "none", ...ports };
}

async function askEngine(ask: Asker, given: Given, look: HostLook): Promise<Start> {
  if (given.running !== undefined) return { running: given.running };
  if (given.engine !== undefined) {
    const installed = look.installed.find(({ engine }) => engine === given.engine);
    return installed === undefined ? { missing: given.engine } : { installed };
  }
  const found: Choice<Start>[] = [
    ...look.running.map((running) => ({
      label: `${running.kind} that runs at ${running.url} (${running.models.join(", ")})`,
      value: { running },
    })),
    ...look.installed.map((installed) => ({
      label: `${installed.engine.kind}${installed.version === undefined ? "" : ` ${installed.version}`}, started by cgn (${installed.program})`,
      value: { installed },
    })),
  ];
  const there = new Set(look.installed.map(({ engine }) => engine));
  const others = ENGINES.filter((engine) => engine.spawns && !there.has(engine)).map((missing) => ({
    label: `${missing.kind}, not installed here: ${installOf(missing) ?? ""}`,
    value: { missing },
  }));
  if (found.length === 0 && ask.takesDefaults) {
    if (look.silent.length > 0) {
      const should = "Try again when this host has less to do, or name the engine with --engine or --url";
      const is = `none was found, and ${look.silent.join("; ")}`;
      throw new CgnError("ENGINE_NOT_FOUND", `Cannot choose an engine: ${is}. ${should}`, { program: "" });
    }
    const should = `Install one (${others.map(({ label }) => label.replace(", not installed here", "")).join("; ")}), or name it with --engine or --url`;
    throw new CgnError("ENGINE_NOT_FOUND", `Cannot choose an engine: none is installed and none runs here. ${should}`, {
      program: "",
    });
  }
  return ask.choose("What shall answer requests?", [...found, ...others], startWith(found, look));
}

/** What runs already; else an engine for which a model lies here. */
function startWith(found: readonly Choice<Start>[], { models, layoutOf }: HostLook): number {
  if (found[0] === undefined || "running" in found[0].value) return 0;
  const fits = found.findIndex(
    ({ value }) => "installed" in value && models.some((model) => suits(model, layoutOf(value.installed.engine))),
  );
  return Math.max(0, fits);
}

/** An engine that reads both forms is made for the Hugging Face layout: a GGUF file is taken where it is named. */
const suits = ({ layout }: FoundModel, wanted: "folder" | "gguf" | "any"): boolean =>
  layout === (wanted === "gguf" ? "gguf" : "folder");

const OTHER: FoundModel = { layout: "folder", target: "", name: "" };

async function askModel(ask: Asker, given: Given, look: HostLook, engine: Engine): Promise<FoundModel> {
  const wanted = look.layoutOf(engine);
  if (given.model !== undefined) return namedModel(given.model, given.cwd, look);
  const fitting = look.models.filter((model) => suits(model, wanted)).slice(0, 20);
  const what = wanted === "gguf" ? "a .gguf file" : "a folder, or a name on the Hugging Face hub";
  if (fitting.length === 0 && ask.takesDefaults) {
    const message = `Cannot choose a model: none for ${engine.kind} was found in the usual folders. Name ${what} with --model`;
    throw new CgnError("MODEL_NOT_FOUND", message, { model: "", known: [] });
  }
  const chosen =
    fitting.length === 0
      ? OTHER
      : await ask.choose("Which model?", [
          ...fitting.map((model) => ({ label: labelOf(model), value: model })),
          { label: "another", value: OTHER },
        ]);
  if (chosen !== OTHER) return chosen;
  const problem = (answer: string): string | undefined => {
    if (isPath(answer)) {
      const path = resolve(given.cwd, answer);
      return existsSync(path) ? undefined : `There is no ${path}`;
    }
    return wanted === "gguf" ? "Write the path of a .gguf file" : undefined;
  };
  return namedModel(await ask.text(`The model: ${what}`, "", problem), given.cwd, look);
}

const labelOf = ({ target, bytes }: FoundModel): string =>
  bytes === undefined ? target : `${target} (${(bytes / GIB).toFixed(1)} GiB)`;

const isPath = (text: string): boolean => /^[./~]/.test(text) || /\.gguf$/i.test(text);

/** A path becomes absolute: the file may be used from another folder. */
function namedModel(text: string, cwd: string, { models }: HostLook): FoundModel {
  const isFile = isPath(text) || (!text.includes(":") && existsSync(resolve(cwd, text)));
  const target = !isFile || isAbsolute(text) ? text : resolve(cwd, text);
  const known = models.find((model) => model.target === target);
  return known ?? { layout: /\.gguf$/i.test(target) ? "gguf" : "folder", target, name: modelName(target) };
}

async function askGpus(
  ask: Asker,
  given: Given,
  { gpus }: HostLook,
  bytes: number | undefined,
): Promise<readonly number[]> {
  if (given.gpus !== undefined) return given.gpus;
  if (gpus.length === 0) return [];
  const count = gpusFor(
    bytes,
    gpus.map(({ totalBytes }) => totalBytes),
  );
  const emptiest = gpus.toSorted((a, b) => a.usedBytes - b.usedBytes || a.index - b.index).slice(0, count);
  const proposed = emptiest.map(({ index }) => index).sort((a, b) => a - b);
  const list = gpus.map(
    ({ index, name, totalBytes, usedBytes }) =>
      `${index}: ${name}, ${Math.round((totalBytes - usedBytes) / GIB)} of ${Math.round(totalBytes / GIB)} GiB free`,
  );
  const known = new Set(gpus.map(({ index }) => index));
  const answer = await ask.text(`Which GPUs (${list.join("; ")})`, proposed.join(","), (text) =>
    readGpus(text)?.every((gpu) => known.has(gpu)) === true ? undefined : "Write numbers of them, for example 0,1",
  );
  return readGpus(answer) ?? [];
}

/** `0,1`; undefined for what is no list of numbers. */
export function readGpus(text: string): readonly number[] | undefined {
  const words = text.split(/[,\s]+/).filter((word) => word !== "");
  return words.length > 0 && words.every((word) => /^\d+$/.test(word)) ? [...new Set(words.map(Number))] : undefined;
}

async function askOffload(
  ask: Asker,
  given: Given,
  { memoryBytes }: HostLook,
  engine: Engine,
  installed: InstalledEngine | undefined,
  hasGpus: boolean,
): Promise<KvOffload> {
  if (given.offload !== undefined) return given.offload;
  const accepted = acceptedOffloads(engine, "both");
  const ready = installed?.offloads ?? ["none"];
  const proposed = proposedOffload(ready, { hasGpus, memoryBytes });
  if (accepted.length < 2) return proposed;
  const choices = accepted.map((value) => ({
    label: `${value}: ${OFFLOAD_REASONS[value]}${ready.includes(value) ? "" : " (its package is not installed here)"}`,
    value,
  }));
  return ask.choose(
    "Where shall the KV cache go when the GPU is full?",
    choices,
    Math.max(0, accepted.indexOf(proposed)),
  );
}

async function askPorts(ask: Asker, given: Given, look: HostLook): Promise<Pick<Choices, "port" | "adminPort">> {
  const port =
    given.port ?? (await askPort(ask, "Port of the endpoint", await look.freePort(ENDPOINT_PORT, [ADMIN_PORT])));
  return { port, adminPort: await look.freePort(ADMIN_PORT, [port]) };
}

async function askPort(ask: Asker, question: string, proposed: number): Promise<number> {
  const answer = await ask.text(question, String(proposed), (text) =>
    /^\d+$/.test(text) && Number(text) >= 1 && Number(text) <= 65_535 ? undefined : "Write a port from 1 to 65535",
  );
  return Number(answer);
}
