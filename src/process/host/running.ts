import { readFile } from "node:fs/promises";

/** How far up from a port's holder its launch is looked for: vLLM → EngineCore → Worker, with a launcher or two. */
const GENERATIONS = 6;

/**
 * Is a process, or one that it descends from, this very launch? Then the engine runs already. Linux only: elsewhere nobody can
 * tell, and the port counts as taken.
 * @returns its pid; undefined when it is another program
 */
export async function runningLaunch(holder: number, argv: readonly string[]): Promise<number | undefined> {
  for (let pid = holder, i = 0; pid > 1 && i < GENERATIONS; i++) {
    if (isLaunch(await wordsOf(pid), argv)) return pid;
    pid = await parentOf(pid);
  }
  return undefined;
}

/** A console script's words follow its interpreter's: `python3 /venv/bin/vllm serve …`. The program may have become a full path. */
export function isLaunch(words: readonly string[], argv: readonly string[]): boolean {
  const rest = argv.slice(1);
  if (rest.length === 0 || words.length <= rest.length) return false;
  return rest.every((word, i) => words[words.length - rest.length + i] === word);
}

/** A variable of a running process of this user; undefined when it is not set or cannot be read. */
export async function variableOf(pid: number, name: string): Promise<string | undefined> {
  const text = await readFile(`/proc/${pid}/environ`, "utf8").catch(() => "");
  const found = text.split("\0").find((entry) => entry.startsWith(`${name}=`));
  return found?.slice(name.length + 1);
}

async function wordsOf(pid: number): Promise<string[]> {
  const text = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
  return text === "" ? [] : text.replace(/\0$/, "").split("\0");
}

async function parentOf(pid: number): Promise<number> {
  const text = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  // The command may hold spaces and brackets: fields count from the last bracket.
  return Number(text.slice(text.lastIndexOf(")") + 2).split(" ")[1] ?? 0);
}
