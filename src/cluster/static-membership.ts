import { readFileSync, statSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import type { Clock } from "../core/clock.ts";
import { CgnError, type Problem } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import { type Member, type Membership, type NodeMark, sortMembers } from "../core/membership.ts";
import { createTellers } from "./tellers.ts";

/** What a file says. */
export interface MemberFile {
  readonly members: readonly Member[];
  readonly marks: ReadonlyMap<string, NodeMark>;
}

export interface StaticMembershipOptions {
  /** `[cluster].static_file` */
  readonly file: string;
  /** @throws CgnError CONFIG_INVALID with the place in the file */
  readonly parse: (text: string, file: string) => MemberFile;
  readonly clock: Clock;
  readonly log: Log;
}

/** How often the file is looked at. By polling: mounted files are swapped by symbolic links, which file watches miss. */
const LOOK_MS = 1_000;

/**
 * The members that a file lists, read anew when it changes. A file that became wrong, or is gone, changes nothing and is said with
 * its place. People write it, so nobody announces himself and marks are written there too (`mark = "cordoned"`).
 * @throws CgnError CONFIG_INVALID when the file is not right now
 */
export function openStaticMembership({ file, parse, clock, log }: StaticMembershipOptions): Membership {
  const tellers = createTellers();
  const read = (): MemberFile => {
    let text: string;
    try {
      text = readFileSync(file, "utf8");
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause);
      const message = `Cannot read ${file}: ${why}. Name a file that lists the daemons with [cluster].static_file`;
      throw new CgnError("CONFIG_INVALID", message, { problems: [] }, { cause });
    }
    return parse(text, file);
  };
  const stampOf = (): string => {
    try {
      const { mtimeMs, size, ino } = statSync(file);
      return `${mtimeMs}/${size}/${ino}`;
    } catch {
      return "gone";
    }
  };
  let seen = stampOf();
  let { members, marks } = read();
  members = sortMembers(members);
  let reason = "";
  let cancel = (): void => {};
  const reread = (): void => {
    const before = { members, marks, reason };
    try {
      const now = read();
      const next = sortMembers(now.members);
      if (!isDeepStrictEqual(next, members)) members = next;
      if (!isDeepStrictEqual(now.marks, marks)) marks = now.marks;
      reason = "";
      if (members !== before.members || marks !== before.marks || before.reason !== "")
        log.info("The list of daemons was read anew", { file, daemons: members.length });
    } catch (error) {
      reason = wordsOf(error);
      log.error("The list of daemons is not right: the one before stays in use", { file, why: reason });
    }
    if (members !== before.members || marks !== before.marks || reason !== before.reason) tellers.tell();
  };
  const look = (): void => {
    cancel = clock.after(LOOK_MS, () => {
      const stamp = stampOf();
      if (stamp !== seen) {
        seen = stamp;
        reread();
      }
      look();
    });
  };
  look();
  return {
    announce: () => async () => {},
    list: () => members,
    marks: () => marks,
    mark: async (node, mark) => {
      const right = mark === undefined ? "Take its mark out" : `Write mark = "${mark}" beside it`;
      throw new CgnError("NOT_SUPPORTED", `Cannot mark node ${node}: ${file} lists who is there. ${right}`, { node });
    },
    subscribe: (listener) => tellers.add(listener),
    health: () => ({ ok: reason === "", reason, source: `static ${file}` }),
    close: async () => cancel(),
  };
}

/** With the first place: an error of several problems only counts them. */
function wordsOf(error: unknown): string {
  const said = error instanceof Error ? error.message : String(error);
  const problems =
    error instanceof CgnError ? (error.details as { readonly problems?: readonly Problem[] }).problems : [];
  const [first] = problems ?? [];
  if (first === undefined || said.includes(first.problem)) return said;
  const place = [first.file, first.line, first.column].filter((part) => part !== undefined).join(":");
  return `${said}: ${place}: ${first.path} ${first.problem}`;
}
