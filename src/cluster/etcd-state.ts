import { isDeepStrictEqual } from "node:util";
import { type Member, type NodeMark, sortMembers } from "../core/membership.ts";
import { memberFromJson, NODE_MARKS } from "./member-json.ts";

/**
 * Keys of a cluster in etcd: `/cgn/NAME/members/KIND/ID` with a lease, `/cgn/NAME/marks/NODE` and `/cgn/NAME/config/KEY` without one.
 */
export class EtcdKeys {
  readonly prefix: string;

  constructor(cluster: string) {
    this.prefix = `/cgn/${encodeURIComponent(cluster)}/`;
  }

  /** The first key behind all of them. */
  get end(): string {
    return `${this.prefix.slice(0, -1)}0`;
  }

  member({ kind, id }: Pick<Member, "kind" | "id">): string {
    return `${this.prefix}members/${kind}/${encodeURIComponent(id)}`;
  }

  mark(node: string): string {
    return `${this.prefix}marks/${encodeURIComponent(node)}`;
  }

  shared(key: string): string {
    return `${this.prefix}config/${encodeURIComponent(key)}`;
  }

  /** The node that a key is the mark of. */
  markedNode(key: string): string | undefined {
    return this.#below("marks/", key);
  }

  /** The setting that a key has the value of. */
  sharedKey(key: string): string | undefined {
    return this.#below("config/", key);
  }

  #below(part: string, key: string): string | undefined {
    const start = this.prefix + part;
    try {
      return key.startsWith(start) ? decodeURIComponent(key.slice(start.length)) : undefined;
    } catch {
      // Not one of ours.
      return undefined;
    }
  }

  isMember(key: string): boolean {
    return key.startsWith(`${this.prefix}members/`);
  }
}

/** What the keys say, and what of it changed. No I/O. */
export class EtcdState {
  readonly #keys: EtcdKeys;
  readonly #members = new Map<string, Member>();
  readonly #marks = new Map<string, NodeMark>();
  readonly #shared = new Map<string, string>();
  #listedShared: ReadonlyMap<string, string> = new Map();
  #listed: readonly Member[] = [];
  #listedMarks: ReadonlyMap<string, NodeMark> = new Map();

  constructor(keys: EtcdKeys) {
    this.#keys = keys;
  }

  list(): readonly Member[] {
    return this.#listed;
  }

  marks(): ReadonlyMap<string, NodeMark> {
    return this.#listedMarks;
  }

  shared(): ReadonlyMap<string, string> {
    return this.#listedShared;
  }

  /** Keys of the members that are listed. */
  memberKeys(): readonly string[] {
    return [...this.#members.keys()];
  }

  /** @returns false: the value is not one that this version understands; the key counts as not there */
  set(key: string, value: string): boolean {
    const node = this.#keys.markedNode(key);
    if (node !== undefined) {
      const isMark = NODE_MARKS.includes(value as NodeMark);
      if (isMark) this.#marks.set(node, value as NodeMark);
      else this.#marks.delete(node);
      return isMark;
    }
    const setting = this.#keys.sharedKey(key);
    if (setting !== undefined) this.#shared.set(setting, value);
    if (!this.#keys.isMember(key)) return true;
    const member = memberFromJson(value);
    if (member === undefined || this.#keys.member(member) !== key) {
      this.#members.delete(key);
      return false;
    }
    this.#members.set(key, member);
    return true;
  }

  delete(key: string): void {
    const node = this.#keys.markedNode(key);
    const setting = this.#keys.sharedKey(key);
    if (node !== undefined) this.#marks.delete(node);
    else if (setting !== undefined) this.#shared.delete(setting);
    else this.#members.delete(key);
  }

  /** Take everything off but these keys. */
  keepOnly(keys: ReadonlySet<string>): void {
    for (const key of this.#members.keys()) if (!keys.has(key)) this.#members.delete(key);
    for (const node of this.#marks.keys()) if (!keys.has(this.#keys.mark(node))) this.#marks.delete(node);
    for (const key of this.#shared.keys()) if (!keys.has(this.#keys.shared(key))) this.#shared.delete(key);
  }

  /** Make the changes since the last call visible. @returns whether there were any */
  publish(): boolean {
    const members = sortMembers(this.#members.values());
    const changes = [
      !isDeepStrictEqual(members, this.#listed),
      !isDeepStrictEqual(this.#marks, this.#listedMarks),
      !isDeepStrictEqual(this.#shared, this.#listedShared),
    ] as const;
    if (changes[0]) this.#listed = members;
    if (changes[1]) this.#listedMarks = new Map(this.#marks);
    if (changes[2]) this.#listedShared = new Map(this.#shared);
    return changes.some(Boolean);
  }
}
