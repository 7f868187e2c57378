import { execFile } from "node:child_process";
import { readdir, readFile, readlink } from "node:fs/promises";
import { createServer } from "node:net";
import { basename } from "node:path";
import { promisify } from "node:util";

/** Can this host listen there now? `host` as an engine would bind it. */
export function isPortFree(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    // Only "in use" counts: an address that is not ours, or a port below 1024, is the engine's to complain about.
    server.once("error", (error: NodeJS.ErrnoException) => resolve(error.code !== "EADDRINUSE"));
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(true)));
  });
}

export interface PortHolder {
  readonly pid: number;
  readonly command: string;
}

/** Who listens on a TCP port of this host; undefined when it cannot be told (another user's process, no `lsof`). */
export async function findPortHolder(port: number): Promise<PortHolder | undefined> {
  try {
    return process.platform === "linux" ? await fromProc(port) : await fromLsof(port);
  } catch {
    return undefined;
  }
}

/** Linux: the listening socket's inode, then the process that has it open. */
async function fromProc(port: number): Promise<PortHolder | undefined> {
  const tables = await Promise.all(
    ["/proc/net/tcp", "/proc/net/tcp6"].map((path) => readFile(path, "utf8").catch(() => "")),
  );
  const hex = port.toString(16).toUpperCase().padStart(4, "0");
  const LISTEN = "0A";
  const inodes = new Set<string>();
  for (const line of tables.join("\n").split("\n")) {
    const cells = line.trim().split(/\s+/);
    if (cells[1]?.endsWith(`:${hex}`) && cells[3] === LISTEN && cells[9]) inodes.add(`socket:[${cells[9]}]`);
  }
  if (inodes.size === 0) return undefined;
  for (const name of await readdir("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const fds = await readdir(`/proc/${name}/fd`).catch(() => []);
    for (const fd of fds) {
      if (!inodes.has(await readlink(`/proc/${name}/fd/${fd}`).catch(() => ""))) continue;
      const [words, comm] = await Promise.all(
        ["cmdline", "comm"].map((file) => readFile(`/proc/${name}/${file}`, "utf8").catch(() => "")),
      );
      return { pid: Number(name), command: programName((words ?? "").split("\0"), (comm ?? "?").trim()) };
    }
  }
  return undefined;
}

/**
 * What people call a process: of an interpreter's the script too (`python3 vllm`). The kernel's own name is that of the main
 * thread, which programs rename (Node's is "MainThread", vLLM's "VLLM::EngineCore").
 */
export function programName(words: readonly string[], comm: string): string {
  const [program = "", ...rest] = words;
  if (program === "") return comm;
  const name = basename(program);
  const script = rest.find((word) => word !== "" && !word.startsWith("-"));
  return /^(node|python|pypy|java|ruby|perl|bash|sh)[\d.]*$/.test(name) && script !== undefined
    ? `${name} ${basename(script)}`
    : name;
}

async function fromLsof(port: number): Promise<PortHolder | undefined> {
  const { stdout } = await promisify(execFile)("lsof", ["-nP", `-iTCP:${port}`, "-sTCP:LISTEN", "-Fpc"], {
    timeout: 2_000,
  });
  const pid = /^p(\d+)/m.exec(stdout)?.[1];
  return pid === undefined ? undefined : { pid: Number(pid), command: /^c(.+)/m.exec(stdout)?.[1] ?? "?" };
}
