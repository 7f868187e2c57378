import { isDeepStrictEqual } from "node:util";
import { type Member, type Membership, memberKey, type NodeMark, sortMembers } from "../core/membership.ts";
import { createTellers } from "./tellers.ts";

/** A membership that its owner writes to. */
export interface MemoryMembership extends Membership {
  /** Make these the whole list; who listens is told once, and not at all when nothing changed. */
  replaceAll(members: readonly Member[]): void;
}

/** The members of one process: named by flags, or all that there is. */
export function createMemoryMembership(members: readonly Member[] = []): MemoryMembership {
  const byKey = new Map(members.map((member) => [memberKey(member), member]));
  let listed = sortMembers(byKey.values());
  let marks: ReadonlyMap<string, NodeMark> = new Map();
  const tellers = createTellers();
  const changed = (): void => {
    listed = sortMembers(byKey.values());
    tellers.tell();
  };
  return {
    announce(member) {
      const key = memberKey(member);
      if (!isDeepStrictEqual(byKey.get(key), member)) {
        byKey.set(key, member);
        changed();
      }
      return async () => {
        // Another process may have taken its place.
        if (byKey.get(key) !== member) return;
        byKey.delete(key);
        changed();
      };
    },
    list: () => listed,
    marks: () => marks,
    async mark(node, mark) {
      if (marks.get(node) === mark) return;
      marks = withMark(marks, node, mark);
      tellers.tell();
    },
    subscribe: (listener) => tellers.add(listener),
    health: () => ({ ok: true, reason: "", source: "memory" }),
    replaceAll(next) {
      if (isDeepStrictEqual(sortMembers(next), listed)) return;
      byKey.clear();
      for (const member of next) byKey.set(memberKey(member), member);
      changed();
    },
    close: async () => {},
  };
}

/** The marks with one set or cleared. */
export function withMark(
  marks: ReadonlyMap<string, NodeMark>,
  node: string,
  mark: NodeMark | undefined,
): ReadonlyMap<string, NodeMark> {
  const next = new Map(marks);
  if (mark === undefined) next.delete(node);
  else next.set(node, mark);
  return next;
}
