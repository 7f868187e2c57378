import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../../src/process/testing/harness.ts";

const ENTRY = join(import.meta.dirname, "..", "..", "src", "cli", "bin", "cgn.ts");

/** `count` ports that nobody listens at. */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = [];
  while (ports.length < count) ports.push(await freePort());
  return ports;
}

export interface CgnProcess {
  readonly child: ChildProcess;
  /** All that it wrote so far, both streams. */
  output(): string;
  readonly exit: Promise<number>;
}

/** The command line as a child process of its own, from source. `within`: a command that runs it, such as `ip netns exec`. */
export function startCgn(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  cwd = tmpdir(),
  within: readonly string[] = [],
): CgnProcess {
  const [command = "", ...rest] = [...within, process.execPath, "--disable-warning=ExperimentalWarning", ENTRY];
  const child = spawn(command, [...rest, ...args], {
    cwd,
    env: { ...process.env, NO_COLOR: "1", ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk: Buffer) => (said += chunk.toString()));
  const exit = new Promise<number>((resolve) =>
    child.once("close", (code, signal) => resolve(code ?? (signal === "SIGKILL" ? 137 : 1))),
  );
  return { child, output: () => said, exit };
}

/** Runs a command to its end. */
export async function runCgn(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  cwd = tmpdir(),
): Promise<{ code: number; out: string; err: string }> {
  const child = spawn(process.execPath, ["--disable-warning=ExperimentalWarning", ENTRY, ...args], {
    cwd,
    env: { ...process.env, NO_COLOR: "1", ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let out = "";
  let err = "";
  child.stdout.on("data", (chunk: Buffer) => (out += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (err += chunk.toString()));
  const code = await new Promise<number>((resolve) => child.once("close", (c) => resolve(c ?? 1)));
  return { code, out, err };
}

/** Asks `probe` again until it gives something, at most `ms`; then fails with `what` and the process's own words. */
export async function until<T>(
  what: string,
  ms: number,
  probe: () => T | undefined | Promise<T | undefined>,
  words: () => string = () => "",
): Promise<T> {
  const deadline = Date.now() + ms;
  for (;;) {
    const got = await probe();
    if (got !== undefined && got !== false) return got;
    if (Date.now() > deadline) throw new Error(`${what}: not within ${ms} ms\n${words()}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** A folder of its own, removed with `dispose`. */
export function scratch(): { readonly dir: string; file(name: string, text: string): string; dispose(): void } {
  const dir = mkdtempSync(join(tmpdir(), "cgn-test-"));
  return {
    dir,
    file(name, text) {
      const path = join(dir, name);
      writeFileSync(path, text);
      return path;
    },
    dispose: () => rmSync(dir, { recursive: true, force: true }),
  };
}

/** Process ids whose command line holds all of `words` as arguments (Linux). */
export function pidsWith(...words: readonly string[]): number[] {
  const found: number[] = [];
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const argv = readFileSync(`/proc/${name}/cmdline`, "utf8").split("\0");
      const state = readFileSync(`/proc/${name}/stat`, "utf8").split(") ")[1]?.[0];
      if (state !== "Z" && words.every((w) => argv.includes(w))) found.push(Number(name));
    } catch {
      // It ended between the two calls.
    }
  }
  return found;
}

export function alive(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.[0] !== "Z";
  } catch {
    return false;
  }
}
