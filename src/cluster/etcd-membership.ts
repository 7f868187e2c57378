import type { Clock } from "../core/clock.ts";
import { CgnError } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import type { Member, Membership, MembershipHealth, NodeMark, SharedConfig } from "../core/membership.ts";
import type { EtcdClient, EtcdReply } from "./etcd-client.ts";
import { EtcdLease } from "./etcd-lease.ts";
import { EtcdKeys, EtcdState } from "./etcd-state.ts";
import { createTellers } from "./tellers.ts";

export interface EtcdMembershipOptions {
  /** Closed with the membership. */
  readonly client: EtcdClient;
  /** `[cluster].name`: clusters of different names share an etcd without meeting. */
  readonly cluster: string;
  /** A member that was not heard for so long is taken off the list. */
  readonly ttlS: number;
  readonly clock: Clock;
  readonly log: Log;
  readonly onClose?: () => void;
  /** How long an etcd that does not answer at the start is waited for: it may be starting too. Default 0. */
  readonly patienceMs?: number;
}

const RETRY_MS = 100;
const RETRY_MAX_MS = 2_000;
/** A member of etcd must confirm a watch within this. */
const CREATED_MS = 2_000;

/**
 * The members that etcd knows. Each has a lease, renewed three times within its time; the list is read once and then watched from
 * that revision on, so nothing is missed and nothing told twice. A watch that was cut goes on where it was, at another etcd member
 * if need be; where etcd has forgotten that (compaction) the list is read again.
 *
 * While etcd is away nothing is taken off the list. Leases do not run out meanwhile either: etcd gives them their whole time again
 * when it has a leader. An etcd that comes back empty is told anew by all; who is missing there stays for another lease.
 * @throws CgnError DEPENDENCY_UNREACHABLE when no endpoint answers now
 */
export async function openEtcdMembership(options: EtcdMembershipOptions): Promise<Membership> {
  const membership = new EtcdMembership(options);
  const { clock, patienceMs = 0 } = options;
  const end = clock.now() + patienceMs;
  for (;;) {
    try {
      await membership.open();
      return membership;
    } catch (error) {
      if (clock.now() >= end || isRefusal(error)) {
        await membership.close();
        throw error;
      }
      await new Promise<void>((resolve) => void clock.after(RETRY_MS, resolve));
    }
  }
}

/** Waiting helps with nothing that is configured wrong. */
function isRefusal(error: unknown): boolean {
  const { why = "", grpc } = (error as CgnError).details as { readonly why?: string; readonly grpc?: number };
  return (grpc !== undefined && grpc !== 14) || /certificate|self-signed|and no JSON/i.test(why);
}

const base64 = (text: string): string => Buffer.from(text).toString("base64");
const fromBase64 = (text: unknown): string => Buffer.from(String(text ?? ""), "base64").toString();

interface KeyValue {
  readonly key?: string;
  readonly value?: string;
}

class EtcdMembership implements Membership {
  readonly #o: EtcdMembershipOptions;
  readonly #keys: EtcdKeys;
  readonly #state: EtcdState;
  readonly #lease: EtcdLease;
  readonly #tellers = createTellers();
  readonly #ended = new AbortController();
  #revision = 0;
  #mustList = true;
  /** The next list is of an etcd that may have lost everything: who is missing stays for a while. */
  #mayBeEmptied = false;
  #watch: { readonly endpoint: string; cut(): void } | undefined;
  #isWatching = false;
  #pulseReason = "";
  #watchReason = "not reached yet";
  #wasOk = true;
  #cancelLinger = (): void => {};

  constructor(options: EtcdMembershipOptions) {
    this.#o = options;
    this.#keys = new EtcdKeys(options.cluster);
    this.#state = new EtcdState(this.#keys);
    this.#lease = new EtcdLease({
      ...options,
      keyOf: (member) => this.#keys.member(member),
      prefix: this.#keys.prefix,
      onPulse: (reason) => this.#pulsed(reason),
      onLost: () => this.#suspectEmptied(),
    });
  }

  async open(): Promise<void> {
    await this.#list();
    void this.#run();
    this.#lease.start();
  }

  announce(member: Member): () => Promise<void> {
    return this.#lease.announce(member);
  }

  list(): readonly Member[] {
    return this.#state.list();
  }

  marks(): ReadonlyMap<string, NodeMark> {
    return this.#state.marks();
  }

  async mark(node: string, mark: NodeMark | undefined): Promise<void> {
    const key = this.#keys.mark(node);
    const until = "until then a node is taken out by stopping its agent";
    if (mark === undefined)
      await this.#write(`take the mark off "${node}"`, until, "kv/deleterange", { key: base64(key) });
    else await this.#write(`mark "${node}"`, until, "kv/put", { key: base64(key), value: base64(mark) });
    // The watch says the same in a moment; whoever asked sees it now.
    if (mark === undefined) this.#state.delete(key);
    else this.#state.set(key, mark);
    this.#publish();
  }

  readonly shared: SharedConfig = {
    values: () => this.#state.shared(),
    change: (changes) => this.#share(changes),
  };

  async #share(changes: ReadonlyMap<string, string | undefined>): Promise<void> {
    const success = [...changes].map(([name, value]) => {
      const key = base64(this.#keys.shared(name));
      return value === undefined ? { request_delete_range: { key } } : { request_put: { key, value: base64(value) } };
    });
    await this.#write("share settings", "until then the last ones hold", "kv/txn", { success });
    for (const [name, value] of changes) {
      if (value === undefined) this.#state.delete(this.#keys.shared(name));
      else this.#state.set(this.#keys.shared(name), value);
    }
    this.#publish();
  }

  /** What an operator wants to change. @throws CgnError as `call()` does; while etcd is lost it says what helps meanwhile */
  async #write(what: string, until: string, path: string, body: object): Promise<void> {
    try {
      await this.#o.client.call(path, body);
    } catch (cause) {
      if (isRefusal(cause)) throw cause;
      const { endpoint } = this.#o.client;
      const is = `etcd at ${endpoint}, where it would be kept for all routers, is lost (${whyOf(cause)})`;
      const message = `Cannot ${what}: ${is}. Ask again when it is back; ${until}`;
      throw new CgnError("DEPENDENCY_UNREACHABLE", message, { endpoint, why: whyOf(cause) }, { cause });
    }
  }

  subscribe(listener: () => void): () => void {
    return this.#tellers.add(listener);
  }

  health(): MembershipHealth {
    const reason = this.#pulseReason === "" ? (this.#isWatching ? "" : this.#watchReason) : this.#pulseReason;
    return { ok: reason === "", reason, source: `etcd ${this.#o.client.endpoint}` };
  }

  async close(): Promise<void> {
    this.#ended.abort();
    this.#watch?.cut();
    this.#cancelLinger();
    this.#lease.close();
    await this.#o.client.close();
    this.#o.onClose?.();
  }

  async #run(): Promise<void> {
    for (let attempt = 0; !this.#ended.signal.aborted; attempt++) {
      const before = this.#revision;
      try {
        if (this.#mustList) await this.#list();
        await this.#follow();
        this.#watchReason = "the watch ended";
      } catch (error) {
        this.#watchReason = whyOf(error);
        if (!this.#mustList) this.#o.client.next();
      }
      if (this.#ended.signal.aborted) return;
      if (this.#isWatching || this.#revision !== before) attempt = 0;
      this.#isWatching = false;
      // A list that must be read again is no failure.
      if (!this.#mustList) this.#tellHealth();
      const pause = Math.min(RETRY_MAX_MS, RETRY_MS * 2 ** Math.min(attempt, 6));
      await new Promise<void>((resolve) => void this.#o.clock.after(pause, resolve));
    }
  }

  /** Read all keys. Exact: such a read is confirmed by a majority of etcd's members. */
  async #list(): Promise<void> {
    const { prefix, end } = this.#keys;
    const reply = await this.#o.client.call("kv/range", { key: base64(prefix), range_end: base64(end) });
    const revision = revisionOf(reply);
    const isEmptied = this.#mayBeEmptied || revision < this.#revision;
    const kvs = (reply["kvs"] ?? []) as readonly KeyValue[];
    const here = new Set(kvs.map(({ key }) => fromBase64(key)));
    for (const { key, value } of kvs) this.#set(fromBase64(key), fromBase64(value));
    this.#cancelLinger();
    if (isEmptied) {
      const missing = this.#state.memberKeys().filter((key) => !here.has(key));
      for (const key of missing) here.add(key);
      this.#linger(missing);
      void this.#lease.renewAll();
    }
    this.#state.keepOnly(here);
    this.#revision = revision;
    this.#mustList = false;
    this.#mayBeEmptied = false;
    this.#publish();
  }

  /** Those that did not come back within a lease are gone. */
  #linger(missing: readonly string[]): void {
    const left = new Set(missing);
    this.#lingering = left;
    this.#cancelLinger = this.#o.clock.after(this.#o.ttlS * 1_000, () => {
      for (const key of left) this.#state.delete(key);
      this.#publish();
    });
  }

  #lingering: Set<string> = new Set();

  async #follow(): Promise<void> {
    const { client, clock } = this.#o;
    const stop = new AbortController();
    const cut = () => stop.abort(new Error("no word from it"));
    const cancel = clock.after(CREATED_MS, cut);
    this.#watch = { endpoint: client.endpoint, cut };
    const { prefix, end } = this.#keys;
    const revision = String(this.#revision + 1);
    const request = { key: base64(prefix), range_end: base64(end), start_revision: revision, progress_notify: true };
    try {
      for await (const reply of client.watch(request, stop.signal)) {
        cancel();
        if (this.#take(reply)) return;
      }
    } finally {
      cancel();
      this.#watch = undefined;
      stop.abort();
    }
  }

  /** @returns the watch is over: the list must be read again */
  #take(reply: EtcdReply): boolean {
    if (reply["canceled"] === true) {
      const compacted = reply["compact_revision"] !== undefined;
      this.#mustList = true;
      if (!compacted) throw new Error(String(reply["cancel_reason"] ?? "etcd ended the watch"));
      this.#o.log.info("etcd has forgotten where the watch was cut: members are read anew", {});
      return true;
    }
    if (reply["created"] === true) {
      // Either this etcd member lags, or etcd was made anew: a list decides.
      if (revisionOf(reply) < this.#revision && !this.#listedForLag) {
        this.#listedForLag = true;
        this.#mustList = true;
        return true;
      }
      this.#listedForLag = false;
      this.#isWatching = true;
      this.#tellHealth();
    }
    for (const { type, kv } of (reply["events"] ?? []) as readonly { type?: string; kv?: KeyValue }[]) {
      const key = fromBase64(kv?.key);
      if (type === "DELETE") {
        this.#state.delete(key);
        this.#lease.deleted(key);
      } else this.#set(key, fromBase64(kv?.value));
    }
    this.#revision = Math.max(this.#revision, revisionOf(reply));
    this.#publish();
    return false;
  }

  #listedForLag = false;

  #set(key: string, value: string): void {
    this.#lingering.delete(key);
    if (!this.#state.set(key, value)) {
      this.#o.log.once(`etcd/${key}`).warn("A key in etcd is not understood and does not count", { key });
    }
    this.#lease.seen(key, value);
  }

  #suspectEmptied(): void {
    this.#mayBeEmptied = true;
    this.#mustList = true;
    this.#watch?.cut();
  }

  #pulsed(reason: string): void {
    this.#pulseReason = reason;
    // The watch may hang at a member that answers nothing any more.
    if (this.#watch !== undefined && (reason !== "" || this.#watch.endpoint !== this.#o.client.endpoint))
      this.#watch.cut();
    this.#tellHealth();
  }

  #tellHealth(): void {
    const { ok, reason, source } = this.health();
    if (ok === this.#wasOk) return;
    this.#wasOk = ok;
    if (ok) this.#o.log.info("etcd is there again", { source });
    else this.#o.log.warn("etcd is lost: the daemons that are known stay known", { source, reason });
    this.#tellers.tell();
  }

  #publish(): void {
    if (this.#state.publish()) this.#tellers.tell();
  }
}

function revisionOf(reply: EtcdReply): number {
  return Number((reply["header"] as { readonly revision?: string } | undefined)?.revision ?? 0);
}

function whyOf(error: unknown): string {
  if (error instanceof CgnError) return String((error.details as { why?: string }).why ?? error.message);
  return error instanceof Error ? error.message : String(error);
}
