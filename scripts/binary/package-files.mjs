// The files of the single program: what `npm pack` takes, and the packages that it needs, without what no running program reads.
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { gzipSync } from "node:zlib";

/** Types, sources of types, documents, tests, and C sources of the native part. */
const UNREAD =
  /\.(?:d\.[cm]?ts|[cm]?ts|map|md|markdown|flow|h|hh|cc|cpp|cmake)$|(?:^|\/)(?:test|tests|docs|example|examples|\.github)\//i;
/** Of the package's own files these are no documents. */
const KEPT = /(?:^|\/)(?:README|LICENSE|CHANGELOG)[^/]*$/i;

function filesBelow(root, folder) {
  const at = join(root, folder);
  if (!existsSync(at)) return [];
  if (statSync(at).isFile()) return [folder];
  return readdirSync(at, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(root, join(entry.parentPath, entry.name)).split(sep).join("/"));
}

/** Packages that are not only for development, as the lock file has them. */
function productionPackages(root) {
  const { packages } = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8"));
  return Object.entries(packages)
    .filter(([path, entry]) => path !== "" && entry.dev !== true && entry.devOptional !== true && !entry.link)
    .map(([path]) => path);
}

/** Native parts of other platforms stay out. */
function isForTarget(path, { platform, arch }) {
  const native = /^node_modules\/zeromq\/build\/([^/]+)\/([^/]+)\//.exec(path);
  return native === null || (native[1] === platform && native[2] === arch);
}

/** Paths below `root`, sorted. */
export function packageFiles(root, target) {
  const { files } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const own = [...files, "package.json"].flatMap((path) => filesBelow(root, path));
  const nested = new Set(productionPackages(root));
  const others = [...nested].flatMap((path) =>
    filesBelow(root, path).filter((file) => {
      const inner = /^(.*)\/node_modules\/(?:@[^/]+\/)?[^/]+\//.exec(file.slice(path.length));
      return (
        inner === null && (!UNREAD.test(file) || KEPT.test(file)) && !/\/(?:vcpkg\.json|CMakeLists\.txt)$/.test(file)
      );
    }),
  );
  return [...new Set([...own, ...others])].filter((path) => isForTarget(path, target)).sort();
}

/** One blob: a list as JSON, a zero byte, the files one after another; gzipped. */
export function archive(root, paths) {
  const bodies = paths.map((path) => readFileSync(join(root, path)));
  const list = paths.map((name, n) => {
    const mode = statSync(join(root, name)).mode & 0o111 ? 0o755 : 0o644;
    return { name, bytes: bodies[n].length, mode };
  });
  return gzipSync(Buffer.concat([Buffer.from(JSON.stringify(list)), Buffer.of(0), ...bodies]), { level: 9 });
}
