// npm run test:pack [-- --short]: what `npm pack` makes. Looks at its files, then installs it in an empty folder, with its optional part and
// without, and runs it with npx. `--short` installs nothing: the packed files run beside this tree's node_modules. Prints JSON.
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { nodeEnv, ROOT } from "./node.mjs";
import { setup } from "./setup.mjs";
import { heedUsage } from "./usage.mjs";

heedUsage("test:pack");

/** Unpacked, without native parts (none is in it). */
const MOST_BYTES = 5_000_000;

/** What a user needs; all but these is a slip. */
const WANTED =
  /^(?:dist\/.+\.js|launchers\/.+\.(?:mjs|py)|recipes\/.+\.toml|profiles\/.+\.json|proto\/.+\.proto|deploy\/.+|examples\/.+|docs\/[^/]+\.(?:md|jsonl?)|cgn\.schema\.json|README\.md|LICENSE|CHANGELOG\.md|package\.json)$/;
const UNWANTED =
  /(?:^|\/)(?:test|tests|testing|testdata|fixtures|__pycache__)\/|\.(?:test|case)\.js$|\.map$|\.tsbuildinfo$/;
const NEEDED = [
  "dist/cli/bin/cgn.js",
  "dist/cli/bin/cgn-router.js",
  "dist/router/render-thread.js",
  "dist/router/threads/door-thread.js",
  "dist/kvcached/canonicity-thread.js",
  "dist/web/page/main.js",
  "launchers/sim-vllm.mjs",
  "proto/cgn/kv/v1/kv.proto",
  "cgn.schema.json",
  "docs/index.md",
  "docs/openapi.json",
];

const isShort = process.argv.includes("--short");
process.env.INIT_CWD = ROOT;
const node = await setup();
const env = nodeEnv(node);

function must(command, args, options = {}) {
  const { encoding = "utf8", ...rest } = options;
  const done = spawnSync(command, args, { encoding, env, timeout: 300_000, maxBuffer: 1 << 26, ...rest });
  if (done.status === 0) return done.stdout;
  throw new Error(`${command} ${args.join(" ")} ended with ${done.status}\n${done.stdout}\n${done.stderr}`);
}

/** What is wrong with the list of files. */
function slips({ files, unpackedSize }) {
  const paths = files.map(({ path }) => path);
  return [
    ...paths.filter((path) => !WANTED.test(path) || UNWANTED.test(path)).map((path) => `${path} is in it`),
    ...NEEDED.filter((path) => !paths.includes(path)).map((path) => `${path} is missing`),
    ...(unpackedSize > MOST_BYTES ? [`it has ${unpackedSize} bytes unpacked, more than ${MOST_BYTES}`] : []),
  ];
}

/** `cgn --version`, the table, and the demo with simulated engines: it ends by itself after its report. */
function runAll(run) {
  const version = run(["--version"]).trim();
  const { version: wanted } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  if (version !== wanted) throw new Error(`cgn --version says "${version}"`);
  if (!run(["table"]).includes("--kv-transfer-config")) throw new Error("cgn table shows no cell");
  const began = performance.now();
  const demo = run(["demo", "--sim", "--once"]);
  return { demo: demo.trim().split("\n").length, demoSeconds: Math.round((performance.now() - began) / 100) / 10 };
}

/** The packed files with this tree's packages beside them. */
function besideTree(place, tarball) {
  must("tar", ["-xzf", tarball, "-C", place]);
  symlinkSync(join(ROOT, "node_modules"), join(place, "package", "node_modules"));
  const cli = join(place, "package", "dist", "cli", "bin", "cgn.js");
  return runAll((args) => must(node, [cli, ...args], { cwd: place }));
}

/** As a user installs it. @param omit flags of npm */
function installed(place, tarball, omit) {
  mkdirSync(place);
  writeFileSync(join(place, "package.json"), '{ "private": true }\n');
  must("npm", ["install", "--no-audit", "--no-fund", "--ignore-scripts", ...omit, tarball], { cwd: place });
  return (args) => must("npx", ["--no-install", "cgn", ...args], { cwd: place });
}

/** Without the native part all that runs with it does, and it is said what is missing. */
function withoutNative(place, tarball) {
  const run = installed(place, tarball, ["--omit=optional"]);
  runAll(run);
  const { found } = JSON.parse(run(["doctor", "--json"]));
  if (!found.some(({ code }) => code === "zeromq-missing")) throw new Error("cgn doctor does not miss zeromq");
}

const place = mkdtempSync(join(tmpdir(), "cgn-pack-"));
try {
  const [packed] = JSON.parse(
    must("npm", ["pack", "--json", "--pack-destination", place], { cwd: ROOT }).replace(/^[^[]*/, ""),
  );
  const wrong = slips(packed);
  if (wrong.length > 0) throw new Error(wrong.join("\n"));
  const tarball = join(place, packed.filename);
  const own = isShort ? besideTree(place, tarball) : runAll(installed(join(place, "with"), tarball, []));
  if (!isShort) withoutNative(join(place, "without"), tarball);
  const { size, unpackedSize, entryCount } = packed;
  console.log(JSON.stringify({ files: entryCount, packedBytes: size, unpackedBytes: unpackedSize, isShort, ...own }));
} catch (e) {
  console.error(`cgn: the package is not as it should be: ${e.message}`);
  process.exitCode = 1;
} finally {
  rmSync(place, { recursive: true, force: true });
}
