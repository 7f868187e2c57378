// Finds a Node that can run the project's TypeScript, and installs one beside the tree when the machine's is too old.
// Plain JavaScript that Node 18 can run.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

export const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
export const CACHE = join(ROOT, ".cache");

/** Types are stripped without a flag from here on. */
const OLDEST = [22, 18];
/** What the project is developed on. */
const PINNED = "24.22.3";

const LOCAL_BIN = join(CACHE, "node24", "node_modules", ".bin");

function newEnough(version) {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1]);
}

/** npm's name of this platform's Node package. The umbrella package `node` breaks `npm ci`, so it is not used. */
function platformPackage() {
  const known = ["linux-x64", "linux-arm64", "darwin-arm64", "darwin-x64"];
  const here = `${process.platform}-${process.arch}`;
  return known.includes(here) ? `node-${here}` : undefined;
}

/** Path of a fitting Node; installs one (5 s, 121 MB) when there is none. Exits with 9 where that can't be done. */
export function findNode(say = () => {}) {
  const local = join(LOCAL_BIN, "node");
  if (existsSync(local)) return local;
  if (newEnough(process.versions.node)) return process.execPath;
  const name = platformPackage();
  if (name === undefined) {
    console.error(
      `cgn: Node ${process.versions.node} is too old and no newer one can be installed for ${process.platform} ${process.arch}. ` +
        `Install Node ${OLDEST.join(".")} or newer, then try again`,
    );
    process.exit(9);
  }
  say(`Node ${process.versions.node} is too old: installing Node ${PINNED} beside the tree`);
  const prefix = join(CACHE, "node24");
  mkdirSync(prefix, { recursive: true });
  const done = spawnSync("npm", ["install", "--prefix", prefix, "--no-audit", "--no-fund", `${name}@${PINNED}`], {
    stdio: ["ignore", "ignore", "pipe"],
    encoding: "utf8",
  });
  if (done.status !== 0 || !existsSync(local)) {
    console.error(
      `cgn: Node ${PINNED} could not be installed:\n${done.stderr ?? done.error}\nInstall Node 22.18 or newer, then try again`,
    );
    process.exit(4);
  }
  return local;
}

/** The environment in which children find that Node first. */
export function nodeEnv(node) {
  return {
    ...process.env,
    PATH: `${dirname(node)}:${join(ROOT, "node_modules", ".bin")}:${process.env.PATH ?? ""}`,
    CGN_NODE: node,
  };
}
