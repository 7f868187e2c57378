import { constants } from "node:fs";
import { access, open, stat } from "node:fs/promises";
import { basename, delimiter, join, resolve } from "node:path";
import type { ProgramState } from "./host-state.ts";

type Env = Readonly<Record<string, string | undefined>>;

/** Names of Python interpreters: `python`, `python3.12`, `pypy3`. */
const PYTHON_NAME = /^(python|pypy)[\d.]*t?$/;

/** Longest first lines that are read of a script. */
const HEAD_BYTES = 1_024;

/** Find a program as `execvp` does, and the Python that runs it. Nothing is run. */
export async function findProgram(command: string, env: Env): Promise<ProgramState> {
  let unrunnable: string | undefined;
  for (const file of candidates(command, env["PATH"] ?? "")) {
    const found = await look(file);
    if (found === "runnable") return { path: file, ...(await pythonOf(file, env)) };
    if (found === "unrunnable") unrunnable ??= file;
  }
  return unrunnable === undefined ? {} : { unrunnable, looksRunnable: isProgramHead(await head(unrunnable)) };
}

/** Where a command is looked for, in order. */
export function candidates(command: string, path: string): string[] {
  if (command.includes("/")) return [resolve(command)];
  return path
    .split(delimiter)
    .filter((dir) => dir !== "")
    .map((dir) => join(dir, command));
}

async function look(file: string): Promise<"runnable" | "unrunnable" | "absent"> {
  try {
    await access(file, constants.X_OK);
    return (await stat(file)).isFile() ? "runnable" : "unrunnable";
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EACCES" ? "unrunnable" : "absent";
  }
}

/** The interpreter itself, or the one that a console script of pip names in its first lines. */
async function pythonOf(file: string, env: Env): Promise<Pick<ProgramState, "python" | "pythonMissing">> {
  if (PYTHON_NAME.test(basename(file))) return { python: file };
  const named = interpreterIn(await head(file));
  if (named === undefined || !PYTHON_NAME.test(basename(named))) return {};
  for (const each of candidates(named, env["PATH"] ?? "")) {
    if ((await look(each)) === "runnable") return { python: each };
  }
  return { pythonMissing: named };
}

/** `#!`, ELF or Mach-O. */
const isProgramHead = (text: string): boolean => /^(#!|\x7fELF|[\xce\xcf]\xfa\xed\xfe|\xca\xfe\xba\xbe)/.test(text);

async function head(file: string): Promise<string> {
  const handle = await open(file, "r").catch(() => undefined);
  if (handle === undefined) return "";
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(HEAD_BYTES), 0, HEAD_BYTES, 0);
    return buffer.toString("latin1", 0, bytesRead);
  } catch {
    // A folder.
    return "";
  } finally {
    await handle.close();
  }
}

/**
 * The interpreter of a script: `#!/venv/bin/python3`, `#!/usr/bin/env -S python3 -E`, or pip's form for long paths, a shell line
 * that replaces itself by Python (`'''exec' "/long path/python" "$0" "$@"`). Undefined for what is no script.
 */
export function interpreterIn(text: string): string | undefined {
  const [first = "", second = ""] = text.split("\n");
  if (!first.startsWith("#!")) return undefined;
  const words = first.slice(2).trim().split(/\s+/);
  const program = words[0] ?? "";
  if (basename(program) === "env") return words.slice(1).find((word) => !word.startsWith("-") && !word.includes("="));
  if (basename(program) === "sh") return /^'''exec' "?([^"]+?)"? "\$0"/.exec(second.trim())?.[1];
  return program === "" ? undefined : program;
}
