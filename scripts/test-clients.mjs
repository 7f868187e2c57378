// npm run test:clients [-- WORD]: real clients (Node, Python, curl) against a router before engines of every kind. Prints client × case.
// Python clients are installed into .cache/venv-clients; where that cannot be, they are left out (or fail, with CGN_REQUIRE_PYTHON=1).
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { CACHE, ROOT } from "./node.mjs";
import { CLI, runNode } from "./run.mjs";
import { setup } from "./setup.mjs";
import { heedUsage } from "./usage.mjs";

heedUsage("test:clients");

/** The Python that has the clients; undefined where it cannot be had. */
function pythonWithClients() {
  const wanted = join(ROOT, "test", "clients", "requirements.txt");
  const venv = join(CACHE, "venv-clients");
  const marker = join(venv, "cgn-clients.txt");
  const python = join(venv, "bin", "python");
  const text = readFileSync(wanted, "utf8");
  if (existsSync(marker) && readFileSync(marker, "utf8") === text) return python;
  console.error("cgn: installing the Python clients");
  rmSync(venv, { recursive: true, force: true });
  const run = (command, ...args) => spawnSync(command, args, { stdio: ["ignore", "ignore", "inherit"] }).status === 0;
  const made =
    run(process.env.CGN_PYTHON ?? "python3", "-m", "venv", venv) &&
    run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-input", "-r", wanted);
  if (!made) return undefined;
  writeFileSync(marker, text);
  return python;
}

const node = await setup();
const must = process.env.CGN_REQUIRE_PYTHON === "1";
const real = await runNode(node, [CLI, "demo", "--prepare"]);
const python = pythonWithClients();
if (must && (real !== 0 || python === undefined)) {
  console.error("cgn: Python, the real engine and the Python clients must be there, and are not");
  process.exitCode = 1;
} else {
  process.exitCode = await runNode(node, [join(ROOT, "test", "clients", "main.ts"), ...process.argv.slice(2)], {
    CGN_REAL_ENGINE: real === 0 ? "1" : "0",
    CGN_CLIENTS_PYTHON: python ?? "",
  });
}
