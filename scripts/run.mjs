// Runs a TypeScript entry with the fitting Node, in place of this process as far as that goes: same streams, same
// signals, same exit code.
import { spawn } from "node:child_process";
import { join } from "node:path";
import { nodeEnv, ROOT } from "./node.mjs";

/** Runs `node ENTRY ARGS`; resolves with the exit code (128 + signal number when it was killed). */
export function runNode(node, args, extraEnv = {}) {
  return new Promise((resolve) => {
    const child = spawn(node, ["--disable-warning=ExperimentalWarning", ...args], {
      cwd: process.env.INIT_CWD ?? process.cwd(),
      env: { ...nodeEnv(node), ...extraEnv },
      stdio: "inherit",
    });
    // A terminal sends SIGINT to the whole group; a supervisor sends SIGTERM to this process only.
    const forward = (signal) => child.kill(signal);
    process.on("SIGTERM", forward);
    process.on("SIGHUP", forward);
    process.on("SIGINT", () => {});
    child.on("error", (e) => {
      console.error(`cgn: ${e.message}`);
      resolve(1);
    });
    child.on("close", (code, signal) => resolve(code ?? 128 + ({ SIGINT: 2, SIGKILL: 9, SIGTERM: 15 }[signal] ?? 1)));
  });
}

export const CLI = join(ROOT, "src", "cli", "bin", "cgn.ts");
