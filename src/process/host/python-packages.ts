import { execFile } from "node:child_process";
import { stat } from "node:fs/promises";
import type { PackageNeed } from "../../core/host-needs.ts";
import type { PackageState } from "./host-state.ts";

/** A Python that starts from a cold network disk takes seconds, on a busy host more. */
const TIMEOUT_MS = 30_000;

/**
 * Asked of an engine's own interpreter: which distributions are there, by their metadata. Imports nothing that is asked for, so
 * it takes a tenth of a second and never starts CUDA. Its first word on the import path (the working folder) is dropped, so
 * that a `json.py` that lies there is not run.
 */
const SCRIPT = `
import sys
if sys.path and sys.path[0] == "": del sys.path[0]
import json, importlib.metadata, importlib.util, sysconfig
found = {}
for name, module in json.loads(sys.argv[1]):
    try: found[name] = {"version": importlib.metadata.version(name)}
    except Exception:
        try:
            if module and importlib.util.find_spec(module) is not None: found[name] = {}
        except Exception: pass
places = sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")} | {p for p in sys.path if p.endswith("-packages")})
print(json.dumps({"found": found, "places": places}))
`;

interface Answer {
  readonly found: Readonly<Record<string, PackageState>>;
  readonly places: readonly string[];
}

interface Kept extends Answer {
  /** Changes when the interpreter is replaced or a package comes, goes or is upgraded. */
  readonly stamp: string;
}

/** Answers by interpreter and question, for as long as nothing that they depend on has changed. */
export class PackageCache {
  readonly #kept = new Map<string, Kept>();
  readonly #asked = new Map<string, Promise<Answer | undefined>>();

  get(key: string): Kept | undefined {
    return this.#kept.get(key);
  }

  set(key: string, kept: Kept): void {
    this.#kept.set(key, kept);
  }

  /** Who asks while the same is being asked gets that answer: several at once are what makes a busy host busier. */
  once(key: string, ask: () => Promise<Answer | undefined>): Promise<Answer | undefined> {
    let asked = this.#asked.get(key);
    if (asked === undefined) {
      asked = ask().finally(() => this.#asked.delete(key));
      this.#asked.set(key, asked);
    }
    return asked;
  }
}

/** One for the process: a start after a crash asks no Python again. */
const CACHE = new PackageCache();

/**
 * Which of some distributions a Python has. By distribution name; those that are not there are left out.
 * @param env the environment of engines: PYTHONPATH, VIRTUAL_ENV count
 * @returns undefined when the interpreter could not be asked
 */
export async function askPackages(
  python: string,
  needs: readonly PackageNeed[],
  env: Readonly<Record<string, string | undefined>>,
  cache = CACHE,
): Promise<Readonly<Record<string, PackageState>> | undefined> {
  const asked = needs.flatMap(({ name, alternatives = [], module }) => [
    [name, module],
    ...alternatives.map((other) => [other, ""]),
  ]);
  const question = JSON.stringify(asked);
  const key = JSON.stringify([python, env["PYTHONPATH"] ?? "", question]);
  const kept = cache.get(key);
  if (kept !== undefined && kept.stamp === (await stampOf(python, kept.places))) return kept.found;
  const answer = await cache.once(key, () => ask(python, question, env));
  if (answer === undefined) return undefined;
  cache.set(key, { ...answer, stamp: await stampOf(python, answer.places) });
  return answer.found;
}

/** pip writes a folder for each distribution, so the site folder's own time tells that something was installed. */
async function stampOf(python: string, places: readonly string[]): Promise<string> {
  const times = await Promise.all(
    [python, ...places].map((path) =>
      stat(path).then(
        (s) => String(s.mtimeMs),
        () => "-",
      ),
    ),
  );
  return times.join(" ");
}

function ask(
  python: string,
  question: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<Answer | undefined> {
  return new Promise((resolve) => {
    const options = { env: env as NodeJS.ProcessEnv, timeout: TIMEOUT_MS, killSignal: "SIGKILL" as const };
    const child = execFile(python, ["-c", SCRIPT, question], options, (error, stdout) => {
      resolve(error === null ? readAnswer(stdout) : undefined);
    });
    child.stdin?.end();
  });
}

function readAnswer(stdout: string): Answer | undefined {
  try {
    const value = JSON.parse(stdout.trim().split("\n").at(-1) ?? "") as Answer;
    return typeof value.found === "object" && Array.isArray(value.places) ? value : undefined;
  } catch {
    return undefined;
  }
}
