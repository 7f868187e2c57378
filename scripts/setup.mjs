// Set-up of a clone: a fitting Node, the npm packages, the generated code (protobuf, WebAssembly). Does only what is missing or stale.
// Plain JavaScript that Node 18 can run. `node scripts/setup.mjs` runs it alone.
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { pathToFileURL } from "node:url";
import { CACHE, findNode, nodeEnv, ROOT } from "./node.mjs";
import { startProgress } from "./progress.mjs";

const STATE = join(CACHE, "setup.json");

const hash = (...paths) => {
  const h = createHash("sha256");
  // Names relative to the tree: a clone that was moved is not stale.
  for (const path of paths) h.update(relative(ROOT, path)).update(readFileSync(path));
  return h.digest("hex");
};

function protoFiles(dir = join(ROOT, "proto")) {
  return readdirSync(dir, { withFileTypes: true })
    .flatMap((e) => (e.isDirectory() ? protoFiles(join(dir, e.name)) : [join(dir, e.name)]))
    .sort();
}

function wasmSources() {
  const dir = join(ROOT, "src", "kvindex", "wasm");
  return readdirSync(dir)
    .filter((name) => name.endsWith(".ts") || name.endsWith(".wat"))
    .sort()
    .map((name) => join(dir, name));
}

function readState() {
  try {
    return JSON.parse(readFileSync(STATE, "utf8"));
  } catch {
    return {};
  }
}

function writeState(state) {
  const beside = `${STATE}.${process.pid}`;
  writeFileSync(beside, `${JSON.stringify(state, null, 2)}\n`);
  renameSync(beside, STATE);
}

/** Runs a program to its end; its output is shown only when it fails. */
function run(command, args, env) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd: ROOT, env, stdio: ["ignore", "pipe", "pipe"] });
    let said = "";
    const keep = (chunk) => {
      said = (said + chunk).slice(-8000);
    };
    child.stdout.on("data", keep);
    child.stderr.on("data", keep);
    child.on("error", reject);
    child.on("close", (code) =>
      code === 0 ? resolve() : reject(new Error(`${command} ${args.join(" ")} ended with ${code}\n${said}`)),
    );
  });
}

/** How many of the packages in the lock file are unpacked already: the progress of `npm ci`. */
function unpackedShare(names) {
  return () => names.filter((name) => existsSync(join(ROOT, name, "package.json"))).length / names.length;
}

async function installPackages(env) {
  const lock = JSON.parse(readFileSync(join(ROOT, "package-lock.json"), "utf8"));
  const names = Object.entries(lock.packages ?? {})
    .filter(([path, entry]) => path !== "" && !entry.optional)
    .map(([path]) => path);
  const bar = startProgress("npm packages", unpackedShare(names));
  try {
    // No install scripts: every native module here ships its binaries inside the package.
    await run("npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund"], env);
  } finally {
    bar.stop();
  }
}

/** One set-up at a time: a second one waits until the first is over (at most 10 minutes). */
async function withLock(work) {
  const lock = join(CACHE, "setup.lock");
  for (let waited = 0; ; waited++) {
    try {
      mkdirSync(lock);
      break;
    } catch {
      let age = 0;
      try {
        age = Date.now() - statSync(lock).mtimeMs;
      } catch {}
      if (age > 600_000 || waited > 600) rmSync(lock, { recursive: true, force: true });
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
  }
  try {
    return await work();
  } finally {
    rmSync(lock, { recursive: true, force: true });
  }
}

/** Does the set-up where it is missing or stale. Gives the Node to go on with. */
export async function setup() {
  mkdirSync(CACHE, { recursive: true });
  return withLock(async () => {
    const node = findNode((text) => console.error(`cgn: ${text}`));
    const env = nodeEnv(node);
    const state = readState();
    const packages = hash(join(ROOT, "package-lock.json"));
    const protos = hash(...protoFiles(), join(ROOT, "buf.gen.yaml"));
    if (state.packages !== packages || !existsSync(join(ROOT, "node_modules", ".package-lock.json"))) {
      await installPackages(env);
    }
    if (state.protos !== protos || !existsSync(join(ROOT, "src", "wire", "gen", "cgn", "kv", "v1", "kv_pb.ts"))) {
      // Nothing is written outside the tree.
      await run(join(ROOT, "node_modules", ".bin", "buf"), ["generate"], { ...env, BUF_CACHE_DIR: join(CACHE, "buf") });
    }
    // The compiler's version is in the lock file.
    const compiler = join(ROOT, "scripts", "compile-wasm.mjs");
    const wasm = hash(...wasmSources(), compiler, join(ROOT, "package-lock.json"));
    if (state.wasm !== wasm || !existsSync(join(ROOT, "src", "kvindex", "gen", "core-wasm.ts"))) {
      await run(node, [compiler], env);
    }
    if (state.packages !== packages || state.protos !== protos || state.wasm !== wasm)
      writeState({ packages, protos, wasm });
    return node;
  });
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  setup().catch((e) => {
    console.error(`cgn: the set-up failed: ${e.message}`);
    process.exit(4);
  });
}
