import { execFileSync } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { ROOT } from "./markdown.ts";

/** The folder in which a page's commands run, and what they find there. */
export interface Place {
  readonly dir: string;
  readonly env: Readonly<Record<string, string>>;
  /** Folders that the page takes for granted become folders of this place. */
  here(text: string): string;
  write(name: string, text: string): void;
  dispose(): void;
}

/** Programs that the page takes for granted: the command line, and simulated engines under their real names. */
function programs(): Record<string, string> {
  const node = `exec '${process.execPath}' --disable-warning=ExperimentalWarning`;
  const sim = (kind: string): string => `${node} '${join(ROOT, "launchers", `sim-${kind}.mjs`)}' "$@"`;
  const python = 'case "$*" in *sglang*)';
  const real = realPython();
  return {
    cgn: `${node} '${join(ROOT, "src", "cli", "bin", "cgn.ts")}' "$@"`,
    vllm: sim("vllm"),
    "llama-server": sim("llama"),
    python: `${python} ${sim("sglang")} ;; esac\nexec ${real} "$@"`,
    python3: `${python} ${sim("sglang")} ;; esac\nexec ${real} "$@"`,
    npm: `cd '${ROOT}' && exec '${join(dirname(realNpm()), "npm")}' "$@"`,
  };
}

const find = (name: string): string | undefined => {
  try {
    return execFileSync("sh", ["-c", `command -v ${name}`], { encoding: "utf8" }).trim();
  } catch {
    return undefined;
  }
};
const realPython = (): string => find("python3") ?? "/bin/false";
const realNpm = (): string => find("npm") ?? "/usr/bin/npm";

/** Folders of a host, as pages name them. */
const FOLDERS = ["/models", "/etc/cognitora", "/run/cognitora", "/var/lib/cognitora", "/var/log/cgn"];

/** A router's request log with two requests that share a beginning. */
function requestLog(): string {
  const row = (at: number, blocks: readonly string[]): string =>
    JSON.stringify({
      run: "r",
      at,
      model: "sim",
      outcome: "ok",
      prompt_tokens: 900,
      prompt_bytes: 4_000,
      output_tokens: 40,
      blocks,
    });
  const head = JSON.stringify({ format: "cgn-request-log", version: 1, chunk_bytes: 2_048 });
  return [head, row(1_796_000_000_000, ["a1", "b2"]), row(1_796_000_004_000, ["a1", "c3"]), ""].join("\n");
}

/** A GGUF file without anything in it: what must be there before llama-server is asked to read it. */
function emptyGguf(): Buffer {
  const file = Buffer.alloc(24);
  file.write("GGUF");
  file.writeUInt32LE(3, 4);
  return file;
}

/** @param text the page: model files that it names are there */
export function makePlace(text: string): Place {
  const root = mkdtempSync(join(tmpdir(), "cgn-page-"));
  const [bin, dir, home] = [join(root, "bin"), join(root, "work"), join(root, "home")];
  for (const folder of [bin, dir, home, ...FOLDERS.map((path) => join(root, path))])
    mkdirSync(folder, { recursive: true });
  for (const [name, line] of Object.entries(programs())) {
    writeFileSync(join(bin, name), `#!/bin/sh\n${line}\n`);
    chmodSync(join(bin, name), 0o755);
  }
  symlinkSync(join(bin, "cgn"), join(dir, "cgn"));
  mkdirSync(join(dir, "docs"));
  symlinkSync(join(ROOT, "launchers"), join(dir, "launchers"));
  cpSync(join(ROOT, "docs", "chats.jsonl"), join(dir, "docs", "chats.jsonl"));
  // "A trace of your own", and the log that it comes from.
  cpSync(join(ROOT, "docs", "chats.jsonl"), join(dir, "trace.jsonl"));
  writeFileSync(join(root, "/var/log/cgn/requests.jsonl"), requestLog());
  for (const [, name = ""] of text.matchAll(/(?<![\w./-])(?:\.|\/models)\/([\w.-]+\.gguf)\b/g))
    for (const folder of [dir, join(root, "models")]) writeFileSync(join(folder, name), emptyGguf());
  const here = (words: string): string =>
    FOLDERS.reduce(
      (now, path) => now.replaceAll(new RegExp(`(?<![\\w.-])${path}(?![\\w-])`, "g"), join(root, path)),
      words,
    );
  const { PATH = "", NODE_COMPILE_CACHE = join(ROOT, ".cache", "compiled") } = process.env;
  return {
    dir,
    env: {
      PATH: [bin, dirname(process.execPath), PATH].join(delimiter),
      HOME: home,
      XDG_RUNTIME_DIR: join(root, "run"),
      // As root the system's folders could be written, and must not be.
      CGN__KV__UDS: join(root, "/run/cognitora/kv.sock"),
      CGN__KV__INDEX_DIR: join(root, "/var/lib/cognitora/index"),
      CGN__AGENT__STATE_DIR: join(root, "/var/lib/cognitora"),
      CGN__AGENT__LOG_DIR: join(root, "/var/lib/cognitora/logs"),
      CGN__CLUSTER__DATA_DIR: join(root, "/var/lib/cognitora/cluster"),
      XDG_STATE_HOME: join(root, "state"),
      NODE_COMPILE_CACHE,
      NO_COLOR: "1",
      LANG: "C.UTF-8",
    },
    here,
    write(name, text) {
      mkdirSync(dirname(join(dir, name)), { recursive: true });
      writeFileSync(join(dir, name), `${here(text)}\n`);
    },
    dispose: () => rmSync(root, { recursive: true, force: true, maxRetries: 3 }),
  };
}
