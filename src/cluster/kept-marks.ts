import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { CgnError } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import type { Membership, NodeMark } from "../core/membership.ts";
import { NODE_MARKS } from "./member-json.ts";
import { withMark } from "./memory-membership.ts";
import { createTellers } from "./tellers.ts";

/**
 * A membership whose source keeps no marks that a program sets, with marks in a file of this host: they survive restarts, and are this
 * host's alone. Marks that the source has of itself count where the file has none.
 * @param file made with the first mark; one that is not readable counts as empty and is said
 */
export function keepMarks(membership: Membership, file: string, log: Log): Membership {
  let own = readMarks(file, log);
  if (own.size > 0) {
    const nodes = [...own].map(([node, mark]) => `${node} ${mark}`).join(", ");
    log.warn("Nodes are marked since an earlier run: none of them takes requests until cgn uncordon NODE", { nodes });
  }
  let seen = membership.marks();
  let all = joined(seen, own);
  const tellers = createTellers();
  const leave = membership.subscribe(() => {
    if (membership.marks() !== seen) {
      seen = membership.marks();
      all = joined(seen, own);
    }
    tellers.tell();
  });
  return {
    announce: (member) => membership.announce(member),
    list: () => membership.list(),
    marks: () => all,
    async mark(node, mark) {
      if (mark === undefined && !own.has(node) && membership.marks().has(node)) return membership.mark(node, mark);
      if (own.get(node) === mark) return;
      const next = withMark(own, node, mark);
      writeMarks(file, next);
      own = next;
      all = joined(seen, own);
      tellers.tell();
    },
    subscribe: (listener) => tellers.add(listener),
    health: () => membership.health(),
    async close() {
      leave();
      await membership.close();
    },
  };
}

const joined = (
  theirs: ReadonlyMap<string, NodeMark>,
  own: ReadonlyMap<string, NodeMark>,
): ReadonlyMap<string, NodeMark> => new Map([...theirs, ...own]);

function readMarks(file: string, log: Log): ReadonlyMap<string, NodeMark> {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch {
    return new Map();
  }
  try {
    const entries = Object.entries(JSON.parse(text) as Record<string, NodeMark>);
    return new Map(entries.filter(([, mark]) => NODE_MARKS.includes(mark)));
  } catch {
    log.warn("Marks of nodes cannot be read: all take requests. Set them again with cgn cordon", { file });
    return new Map();
  }
}

/** Beside its place and renamed, so that a power cut leaves the one or the other. */
function writeMarks(file: string, marks: ReadonlyMap<string, NodeMark>): void {
  const draft = `${file}.${process.pid}`;
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    writeFileSync(draft, `${JSON.stringify(Object.fromEntries(marks))}\n`, { mode: 0o600, flush: true });
    renameSync(draft, file);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    const message = `Cannot keep the mark in ${file}: ${why}. Name a folder of this user with [cluster].data_dir`;
    throw new CgnError("STORAGE_UNUSABLE", message, { file }, { cause });
  }
}
