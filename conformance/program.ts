import { spawn } from "node:child_process";
import { appendFileSync, mkdirSync } from "node:fs";
import { dirname } from "node:path";

export interface ProgramOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly input?: string;
  /** Milliseconds after which it is killed, with its group. */
  readonly timeoutMs: number;
  /** A file that gets both streams. */
  readonly log?: string;
  onLine?(line: string): void;
}

export interface ProgramEnd {
  /** 137 when it was killed. */
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Runs a program to its end. Never throws: a program that cannot be started ends with 127. */
export function runProgram(argv: readonly [string, ...string[]], options: ProgramOptions): Promise<ProgramEnd> {
  const { env = {}, cwd, input, timeoutMs, log, onLine } = options;
  if (log !== undefined) mkdirSync(dirname(log), { recursive: true });
  return new Promise((resolve) => {
    const child = spawn(argv[0], argv.slice(1), {
      ...(cwd === undefined ? {} : { cwd }),
      env: { ...process.env, ...env },
      detached: true,
      stdio: ["pipe", "pipe", "pipe"],
    });
    const said = { out: "", err: "" };
    let line = "";
    const take = (stream: "out" | "err") => (chunk: string) => {
      said[stream] += chunk;
      if (log !== undefined) appendFileSync(log, chunk);
      if (stream === "err" || onLine === undefined) return;
      const lines = (line + chunk).split("\n");
      line = lines.pop() ?? "";
      for (const each of lines) onLine(each);
    };
    child.stdout.setEncoding("utf8").on("data", take("out"));
    child.stderr.setEncoding("utf8").on("data", take("err"));
    child.stdin.on("error", () => {}); // It may end before it has read all.
    child.stdin.end(input ?? "");
    const end = (): void => {
      try {
        if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
      } catch {
        // Gone already.
      }
    };
    const timer = setTimeout(end, timeoutMs);
    const stopAll = (): void => {
      end();
      process.exit(130);
    };
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, stopAll);
    const done = (result: ProgramEnd): void => {
      clearTimeout(timer);
      for (const signal of ["SIGINT", "SIGTERM"] as const) process.removeListener(signal, stopAll);
      resolve(result);
    };
    child.on("error", (e) => done({ code: 127, out: said.out, err: `${said.err}${e.message}` }));
    child.on("close", (code) => done({ code: code ?? 137, ...said }));
  });
}
