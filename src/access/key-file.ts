import { readFileSync, statSync } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import type { Clock } from "../core/clock.ts";
import { CgnError, type Problem } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import { type KeyEntry, parseKeyLines } from "./key-lines.ts";

const LOOK_MS = 2_000;
/** 100,000 keys with all their fields take less. */
const MAX_BYTES = 32 * 1024 * 1024;

/** State of the file, for status. */
export interface KeyFileStatus {
  readonly path: string;
  readonly keys: number;
  /** Why the file as it is now does not count; the keys of before do. */
  readonly problem?: string;
}

export interface KeyFile {
  readonly entries: readonly KeyEntry[];
  status(): KeyFileStatus;
  close(): void;
}

/** @throws CgnError CONFIG_INVALID with every bad line; STORAGE_UNUSABLE */
export function readKeyFile(path: string): readonly KeyEntry[] {
  let text: string;
  try {
    if (statSync(path).size > MAX_BYTES) throw new Error(`it has more than ${MAX_BYTES} bytes`);
    text = readFileSync(path, "utf8");
  } catch (e) {
    const said = e instanceof Error ? e.message : String(e);
    const should = "Make it with cgn key new --file, or correct auth.api_keys_file";
    throw new CgnError("STORAGE_UNUSABLE", `Cannot read the keys file "${path}": ${said}. ${should}`, { path });
  }
  return entriesOf(text, path);
}

function entriesOf(text: string, path: string): readonly KeyEntry[] {
  const { entries, problems } = parseKeyLines(text);
  if (problems.length === 0) return entries;
  const list: Problem[] = problems.map(({ line, problem }) => ({
    severity: "error",
    path: "",
    file: path,
    line,
    column: 1,
    problem,
  }));
  const { line, problem } = problems[0]!;
  const more = problems.length === 1 ? "" : ` (and ${problems.length - 1} more)`;
  throw new CgnError("CONFIG_INVALID", `Cannot use the keys file "${path}": line ${line}: ${problem}${more}`, {
    problems: list,
  });
}

/**
 * Read a keys file, and again whenever it changes. A file that is bad or gone afterwards changes nothing: the keys of before
 * count on, and log and status say why.
 * @throws CgnError as `readKeyFile()` does
 */
export function followKeyFile(
  path: string,
  deps: { readonly clock: Clock; readonly log: Log },
  onChange: (entries: readonly KeyEntry[]) => void,
): KeyFile {
  let entries = readKeyFile(path);
  let seen = stampOf(statSync(path));
  let problem: string | undefined;
  let closed = false;
  const look = async (): Promise<void> => {
    try {
      const stamp = stampOf(await stat(path));
      if (stamp !== seen) {
        entries = entriesOf(await readFile(path, "utf8"), path);
        seen = stamp;
        if (!closed) onChange(entries);
        deps.log.info("API keys read anew", { file: path, keys: entries.length });
      }
      problem = undefined;
    } catch (e) {
      const said = e instanceof Error ? e.message : String(e);
      if (said !== problem) deps.log.error("The keys file cannot be used; the keys of before count on", { said });
      problem = said;
    }
    if (!closed) cancel = deps.clock.after(LOOK_MS, () => void look());
  };
  let cancel = deps.clock.after(LOOK_MS, () => void look());
  return {
    get entries() {
      return entries;
    },
    status: () => ({ path, keys: entries.length, ...(problem === undefined ? {} : { problem }) }),
    close() {
      closed = true;
      cancel();
    },
  };
}

const stampOf = (s: { mtimeMs: number; size: number; ino: number }): string => `${s.mtimeMs}/${s.size}/${s.ino}`;
