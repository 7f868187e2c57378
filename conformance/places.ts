import { homedir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** The root of the clone. */
export const ROOT = fileURLToPath(new URL("../", import.meta.url));

/** Our own Python: what asks an engine's parser. */
export const PYTHON_DIR = fileURLToPath(new URL("python/", import.meta.url));

/** Where programs are installed: outside the tree, since they take gigabytes and outlive a clone. */
export function cacheFolder(written: string | undefined, env: NodeJS.ProcessEnv): string {
  const fromEnv = written ?? env["CGN_CONFORMANCE_DIR"];
  return fromEnv ?? join(env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "cgn-conformance");
}

/** Places inside the cache folder. */
export class Places {
  readonly root: string;

  constructor(root: string) {
    this.root = root;
  }

  pin(name: string): string {
    return join(this.root, name);
  }

  /** A Python with the packages of a pin that has a venv of its own. */
  python(name: string): string {
    return join(this.root, name, "bin", "python");
  }

  /** A model folder: `smollm2` (weights) or `parser` (configuration only, divisible by every tp that is asked about). */
  model(name: "smollm2" | "parser"): string {
    return join(this.root, "models", name);
  }

  log(name: string): string {
    return join(this.root, "logs", `${name}.log`);
  }
}
