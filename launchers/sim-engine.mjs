// What the simulator launchers share: find a Node that can run cgn, and the command line of this package.
// Plain JavaScript that Node 18 can run.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { constants } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));

/** This Node when it is 22.18 or newer; else the one that started cgn, else the one beside the tree, else the PATH's. */
function findNode() {
  const [major, minor] = process.versions.node.split(".").map(Number);
  if (major > 22 || (major === 22 && minor >= 18)) return process.execPath;
  const beside = join(ROOT, ".cache", "node24", "node_modules", ".bin", "node");
  return process.env.CGN_NODE || (existsSync(beside) ? beside : "node");
}

/** The source of a clone, else the built package. */
function findCli() {
  const source = join(ROOT, "src", "cli", "bin", "cgn.ts");
  return existsSync(source) ? source : join(ROOT, "dist", "cli", "bin", "cgn.js");
}

/** Run `cgn sim --kind KIND -- ARGV`: in this very process where its Node fits, else in a child that gets every signal. */
export async function runSim(kind, argv) {
  const node = findNode();
  const args = ["sim", "--kind", kind, "--", ...argv];
  if (node === process.execPath) {
    const cli = findCli();
    process.argv = [node, cli, ...args];
    await import(cli);
    return;
  }
  const child = spawn(node, ["--disable-warning=ExperimentalWarning", findCli(), ...args], { stdio: "inherit" });
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"]) process.on(signal, () => child.kill(signal));
  child.on("error", (e) => {
    console.error(`cgn: ${e.message}`);
    process.exit(1);
  });
  child.on("exit", (code, signal) => process.exit(code ?? 128 + (constants.signals[signal] ?? 1)));
}
