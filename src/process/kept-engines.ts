import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { endKept, endLeftovers, type FoundProcess, type KeptNote, otherOwner, peekPidFile } from "./pid-file.ts";
import { processStat } from "./signals.ts";

/** A process that an agent left running (`keep_engines`). */
export interface KeptEngine extends FoundProcess {
  readonly path: string;
  readonly note: KeptNote;
  /** The pid of the agent that runs and has it in its care. */
  readonly owner?: number;
}

/** What an agent wants of the processes that are kept. */
export interface Wanted {
  /** `[agent].node_id`. */
  readonly node: string;
  /** Launch fingerprints (`launchFingerprint()`) of what it would take over, by name of engine or sidecar. */
  readonly fingerprints: ReadonlyMap<string, string>;
  /** Addresses of engines that the file adopts as somebody else's. */
  readonly urls: readonly string[];
}

/** Kept processes, by what is to become of them. */
export interface SortedKept {
  /** Of this node and not wanted any more: to be ended. */
  readonly stale: readonly KeptEngine[];
  /** Not wanted, but another node's, or in the care of an agent that runs. */
  readonly others: readonly KeptEngine[];
}

const SUFFIX = ".pid.json";

/** The name of a kept process's file. */
export const pidFileOf = (folder: string, fileName: string): string => join(folder, `${fileName}${SUFFIX}`);

/**
 * What a state folder's pid files say. Files of older versions, which do not say whose they are, are left out.
 * @throws Error (errno) when that cannot be looked at for want of a file descriptor
 */
export function listKept(folder: string): KeptEngine[] {
  let names: string[] = [];
  try {
    names = readdirSync(folder).filter((name) => name.endsWith(SUFFIX));
  } catch {
    // No folder: nothing was kept.
  }
  return names.sort().flatMap((name): KeptEngine[] => {
    const path = join(folder, name);
    const found = peekPidFile(path);
    const note = found?.kept.as;
    if (found === undefined || note === undefined) return [];
    const owner = otherOwner(found.kept);
    return [{ ...found, path, note, ...(owner === undefined ? {} : { owner }) }];
  });
}

/** Which of them an agent ends before it starts anything, and which it only tells of. Those that it takes over are in neither. */
export function sortKept(all: readonly KeptEngine[], { node, fingerprints, urls }: Wanted): SortedKept {
  const isWanted = ({ note, kept, runs }: KeptEngine): boolean => {
    if (note.node !== node) return false;
    // One that ended is looked after by its engine's start: its epoch counts.
    if (!runs) return fingerprints.has(note.name);
    return fingerprints.get(note.name) === kept.fingerprint || urls.includes(note.url ?? "");
  };
  const unwanted = all.filter((each) => !isWanted(each));
  const isStale = ({ note, owner }: KeptEngine): boolean => note.node === node && owner === undefined;
  return { stale: unwanted.filter(isStale), others: unwanted.filter((each) => each.runs && !isStale(each)) };
}

/**
 * End kept processes and remove their files: engines first, their requests within their drain time, then what runs beside them.
 * @param drained settles when no request is left on an engine, or the signal fires
 */
export async function endAllKept(
  all: readonly KeptEngine[],
  drained: (engine: KeptEngine) => Promise<void>,
): Promise<void> {
  const end = async (each: KeptEngine): Promise<void> => {
    const { kept, note, path, runs } = each;
    if (runs && note.url !== undefined) await drained(each);
    await (runs ? endKept(kept, note.graceMs) : endLeftovers(kept));
    // Somebody may have begun another one meanwhile.
    if (peekPidFile(path)?.kept.pid === kept.pid) rmSync(path, { force: true });
  };
  const [engines, sidecars] = [
    all.filter(({ note }) => note.url !== undefined),
    all.filter(({ note }) => note.url === undefined),
  ];
  await Promise.all(engines.map(end));
  await Promise.all(sidecars.map(end));
}

/** Linux: is a process one of a kept engine's group? */
export function belongsTo({ kept, runs }: KeptEngine, pid: number): boolean {
  return runs && (pid === kept.pid || processStat(pid)?.group === kept.pid);
}

/** `n/qwen (pid 12, http://127.0.0.1:8000, GPU 0,1)`. */
export function keptText({ note, kept }: KeptEngine): string {
  const gpus = note.gpus === undefined ? "" : `, GPU ${note.gpus.join(",")}`;
  return `${note.name} (pid ${kept.pid}${note.url === undefined ? "" : `, ${note.url}`}${gpus})`;
}
