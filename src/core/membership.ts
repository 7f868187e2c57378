import type { NodeId } from "./ids.ts";

export type MemberKind = "agent" | "router" | "kvcached";

/** One daemon of a cluster, as the others may know it. */
export interface Member {
  readonly kind: MemberKind;
  /** Unique among its kind. */
  readonly id: string;
  /** The host's name. An agent's engines carry it too, so marks on a node mean them. */
  readonly node: NodeId;
  /** Where its RPCs are: `http://HOST:PORT`, or `https:` where it has a certificate, or `unix:PATH` on this host. */
  readonly url: string;
  /** Milliseconds since 1970 at which its process started; 0: not known. Another process has another one. */
  readonly epoch: number;
  readonly labels?: Readonly<Record<string, string>>;
}

/** Kept out of new choices by an operator: `draining` says besides that the node is to be stopped. */
export type NodeMark = "cordoned" | "draining";

export interface MembershipHealth {
  /** True: what is listed is what the source says now. */
  readonly ok: boolean;
  /** Why not; "" when it is. What is listed then is what was known before. */
  readonly reason: string;
  /** Which source: `memory`, `static FILE`, `etcd ENDPOINT`, `kubernetes NAMESPACE`. */
  readonly source: string;
}

/** Settings that all routers of a cluster have in common, by dotted key; values as texts. */
export interface SharedConfig {
  /** The same map until one changes. What is not known any more because the source is away stays. */
  values(): ReadonlyMap<string, string>;
  /**
   * Change several at once, or none of them; undefined takes one off. Subscribers of the membership hear of it.
   * @throws CgnError DEPENDENCY_UNREACHABLE; nothing has changed then
   */
  change(changes: ReadonlyMap<string, string | undefined>): Promise<void>;
}

/**
 * Who is there. One contract for one process, a file, etcd and Kubernetes; `cluster/membership.case.ts` has its rules.
 *
 * A source that is lost changes nothing: the list stays as it was and `health()` says so.
 */
export interface Membership {
  /**
   * Say that this process is there, for as long as it lives; goes on in the background where the source is away. A file is written by
   * people, so there it does nothing.
   * @returns take it back, so that others hear of it at once; resolves when that is done, or cannot be
   */
  announce(member: Member): () => Promise<void>;
  /** Sorted by kind, then by id. The same array until something changes. */
  list(): readonly Member[];
  /** Marks by node. The same map until one changes. */
  marks(): ReadonlyMap<string, NodeMark>;
  /**
   * Set or clear the mark of a node; it need not be there now. Resolves when it is kept where the source keeps such things.
   * @throws CgnError DEPENDENCY_UNREACHABLE, NOT_SUPPORTED, STORAGE_UNUSABLE; nothing has changed then
   */
  mark(node: string, mark: NodeMark | undefined): Promise<void>;
  /** Where the source has a place for such things (etcd). */
  readonly shared?: SharedConfig;
  /** Called after each change of the list, of the marks, of what is shared or of the health, never before one; the result ends it. */
  subscribe(listener: () => void): () => void;
  health(): MembershipHealth;
  close(): Promise<void>;
}

/** Where its source has it: unique in a cluster. */
export function memberKey(member: Pick<Member, "kind" | "id">): string {
  return `${member.kind}/${member.id}`;
}

/** In the order of `Membership.list()`. */
export function sortMembers(members: Iterable<Member>): readonly Member[] {
  const order = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
  return [...members].sort((a, b) => order(a.kind, b.kind) || order(a.id, b.id));
}
