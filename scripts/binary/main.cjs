// What the single program runs first: Node with the package inside. Unpacks the package once into the user's cache, then is that package's
// `cgn`, or a plain Node for the package's own scripts (simulated engines, children of the simulator).
"use strict";
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const sea = require("node:sea");
const vm = require("node:vm");
const zlib = require("node:zlib");

/** Folders that may hold the unpacked package, the likeliest first. */
function places(name) {
  const cache = process.env.XDG_CACHE_HOME || path.join(os.homedir(), ".cache");
  return [path.join(cache, "cgn", name), path.join(os.tmpdir(), `cgn-${os.userInfo().uid}`, name)];
}

/** Nobody else may put files there that would be run as this user. */
function isOwn(dir) {
  const found = fs.lstatSync(dir, { throwIfNoEntry: false });
  return found?.isDirectory() && found.uid === os.userInfo().uid && (found.mode & 0o022) === 0;
}

function unpack(dir) {
  const beside = `${dir}.${process.pid}`;
  fs.mkdirSync(beside, { recursive: true, mode: 0o700 });
  const all = zlib.gunzipSync(Buffer.from(sea.getRawAsset("package")));
  const end = all.indexOf(0);
  let at = end + 1;
  for (const { name, bytes, mode } of JSON.parse(all.toString("utf8", 0, end))) {
    const file = path.join(beside, name);
    fs.mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 });
    fs.writeFileSync(file, all.subarray(at, at + bytes), { mode });
    at += bytes;
  }
  fs.chmodSync(beside, 0o700);
  try {
    fs.renameSync(beside, dir);
  } catch (e) {
    // Another one was quicker.
    fs.rmSync(beside, { recursive: true, force: true });
    if (!isOwn(dir)) throw e;
  }
}

function findRoot() {
  const { name } = JSON.parse(sea.getAsset("about", "utf8"));
  const failed = [];
  for (const dir of places(name)) {
    if (isOwn(dir)) return dir;
    try {
      unpack(dir);
      if (isOwn(dir)) return dir;
      failed.push(`${dir} is another user's`);
    } catch (e) {
      failed.push(e.message);
    }
  }
  const should = "Set XDG_CACHE_HOME to a folder that can be written";
  process.stderr.write(`cgn: Cannot unpack the program: ${failed.join("; ")}. ${should}\n`);
  process.exit(8);
}

/** Scripts of the package begin with `#!/usr/bin/env node`: on a host without Node this program is it. */
function provideNode(root) {
  const dirs = (process.env.PATH || "").split(path.delimiter);
  if (dirs.some((dir) => dir !== "" && fs.existsSync(path.join(dir, "node")))) return;
  const bin = path.join(root, "bin");
  fs.mkdirSync(bin, { recursive: true });
  const link = path.join(bin, "node");
  try {
    if (!fs.existsSync(link)) {
      fs.rmSync(link, { force: true });
      fs.symlinkSync(process.execPath, link);
    }
  } catch (e) {
    if (e.code !== "EEXIST") throw e;
  }
  process.env.PATH = [...dirs, bin].join(path.delimiter);
}

const root = findRoot();
// Compiled code is kept beside the package: each start but the first is quicker.
require("node:module").enableCompileCache?.(path.join(root, "compiled"));
provideNode(root);
// That this loader is experimental is nothing that a user can act on.
const { emitWarning } = process;
process.emitWarning = (warning, ...more) => {
  if (!String(warning).includes("USE_MAIN_CONTEXT_DEFAULT_LOADER")) emitWarning.call(process, warning, ...more);
};
const load = new vm.Script("(url) => import(url)", {
  importModuleDynamically: vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
}).runInThisContext();
const { pathToFileURL } = require("node:url");
const words = process.argv.slice(2).filter((word, n) => n > 0 || !word.startsWith("--disable-warning="));
const asks = words[0] || "";
if (asks === "-e") vm.runInThisContext(words[1] || "");
else {
  const isScript = path.isAbsolute(asks) && /\.[cm]?js$/.test(asks) && fs.existsSync(asks);
  const called = path.basename(process.argv0);
  const bin = ["cgn-agent", "cgn-kvcached", "cgn-router"].includes(called) ? called : "cgn";
  const file = isScript ? asks : path.join(root, "dist", "cli", "bin", `${bin}.js`);
  process.argv = [process.execPath, file, ...(isScript ? words.slice(1) : words)];
  load(pathToFileURL(file).href).catch((e) => {
    process.stderr.write(`${e.stack || e}\n`);
    process.exit(1);
  });
}
