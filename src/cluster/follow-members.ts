import type { Clock } from "../core/clock.ts";
import { type Member, type MemberKind, type Membership, memberKey } from "../core/membership.ts";

/** What is kept open for one member. */
export interface Followed {
  /** Its own connection says that it lives. */
  isLive(): boolean;
  close(): void;
}

export interface FollowMembersOptions<T extends Followed> {
  readonly membership: Pick<Membership, "list" | "subscribe">;
  readonly kind: MemberKind;
  readonly clock: Clock;
  /** A member came, or moved to another URL. */
  open(member: Member): T;
}

/** Those that are followed now. */
export interface FollowedMembers<T> {
  /** In the order of the membership's list; those that left it and still live come last. */
  all(): readonly { readonly member: Member; readonly followed: T }[];
  close(): void;
}

/** How often one that is not listed any more is asked whether it lives. */
const LOOK_MS = 500;

/**
 * Keep something open for each member of a kind, as they come and go. A member that is off the list is followed on for as long as its own
 * connection lives: its lease may have run out because only the way between it and etcd is cut.
 */
export function followMembers<T extends Followed>(options: FollowMembersOptions<T>): FollowedMembers<T> {
  const { membership, kind, clock, open } = options;
  const entries = new Map<string, { member: Member; readonly followed: T }>();
  let cancel = (): void => {};
  let closed = false;
  const take = (): void => {
    if (closed) return;
    cancel();
    const members = membership.list().filter((member) => member.kind === kind);
    const here = new Map(members.map((member) => [memberKey(member), member]));
    for (const [key, entry] of entries) {
      const now = here.get(key);
      const isGone = now === undefined ? !entry.followed.isLive() : now.url !== entry.member.url;
      if (isGone) {
        entries.delete(key);
        entry.followed.close();
      } else if (now !== undefined) entry.member = now;
    }
    for (const [key, member] of here) if (!entries.has(key)) entries.set(key, { member, followed: open(member) });
    const hasLeft = [...entries.keys()].some((key) => !here.has(key));
    if (hasLeft) cancel = clock.after(LOOK_MS, take);
  };
  take();
  const leave = membership.subscribe(take);
  return {
    all() {
      const listed = membership.list().map(memberKey);
      const place = (key: string): number => {
        const at = listed.indexOf(key);
        return at < 0 ? listed.length : at;
      };
      return [...entries].sort(([a], [b]) => place(a) - place(b)).map(([, entry]) => entry);
    },
    close() {
      closed = true;
      leave();
      cancel();
      for (const { followed } of entries.values()) followed.close();
      entries.clear();
    },
  };
}
