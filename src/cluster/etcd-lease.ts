import type { Clock } from "../core/clock.ts";
import { CgnError } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import type { Member } from "../core/membership.ts";
import { type EtcdClient, NOT_FOUND } from "./etcd-client.ts";

export interface EtcdLeaseOptions {
  readonly client: EtcdClient;
  readonly ttlS: number;
  readonly clock: Clock;
  readonly log: Log;
  readonly keyOf: (member: Member) => string;
  /** Read where nothing is announced, to know that etcd answers. */
  readonly prefix: string;
  /** After each renewal: "" or why it failed. */
  readonly onPulse: (reason: string) => void;
  /** etcd does not know the lease any more: it ran out, or etcd lost what it had. */
  readonly onLost: () => void;
}

/** A process that stops does not wait longer for etcd. */
const WITHDRAW_MS = 2_000;

const base64 = (text: string): string => Buffer.from(text).toString("base64");

/** What this process says of itself in etcd: one lease, and a key for each member, written again when it is not there. */
export class EtcdLease {
  readonly #o: EtcdLeaseOptions;
  readonly #own = new Map<string, { readonly member: Member; written: boolean }>();
  #id: string | undefined;
  #closed = false;
  #cancel = (): void => {};
  /** Calls one after the other, so that a renewal never meets a lease that is being made. */
  #work: Promise<void> = Promise.resolve();

  constructor(options: EtcdLeaseOptions) {
    this.#o = options;
  }

  start(): void {
    this.#cancel = this.#o.clock.after((this.#o.ttlS * 1_000) / 3, () => {
      void this.#pulse().finally(() => {
        if (!this.#closed) this.start();
      });
    });
  }

  announce(member: Member): () => Promise<void> {
    const key = this.#o.keyOf(member);
    const entry = { member, written: false };
    this.#own.set(key, entry);
    void this.#then(() => this.#write());
    return async () => {
      if (this.#own.get(key) !== entry) return;
      this.#own.delete(key);
      // Where etcd does not answer, the lease runs out.
      await Promise.race([
        this.#then(() => this.#withdraw(key)),
        new Promise<void>((resolve) => void this.#o.clock.after(WITHDRAW_MS, resolve)),
      ]);
    };
  }

  /** A key was seen as it is in etcd. */
  seen(key: string, value: string): void {
    const own = this.#own.get(key);
    if (own === undefined || value === JSON.stringify(own.member)) return;
    this.#o.log
      .once(`etcd/twice/${key}`)
      .error("Another process announces itself under this one's name: give each its own node_id", {
        key,
        other: value,
      });
  }

  /** A key is gone from etcd. */
  deleted(key: string): void {
    const own = this.#own.get(key);
    if (own === undefined) return;
    own.written = false;
    void this.#then(() => this.#write());
  }

  /** Write all keys again, with a new lease. */
  async renewAll(): Promise<void> {
    this.#forget();
    await this.#then(() => this.#write());
  }

  close(): void {
    this.#closed = true;
    this.#cancel();
  }

  async #pulse(): Promise<void> {
    try {
      await this.#then(async () => {
        if (this.#id === undefined) {
          if (this.#own.size === 0) await this.#o.client.call("kv/range", { key: base64(this.#o.prefix), limit: "1" });
        } else await this.#renew(this.#id);
        await this.#write();
      }, true);
      this.#o.onPulse("");
    } catch (error) {
      if (!this.#closed) this.#o.onPulse(whyOf(error));
    }
  }

  async #renew(id: string): Promise<void> {
    const { TTL } = await this.#o.client.call("lease/keepalive", { ID: id });
    if (Number(TTL ?? 0) > 0) return;
    this.#forget();
    this.#o.log.warn("The lease in etcd is gone: this process announces itself again");
    this.#o.onLost();
  }

  async #write(): Promise<void> {
    const missing = [...this.#own].filter(([, { written }]) => !written);
    if (missing.length === 0 || this.#closed) return;
    this.#id ??= String((await this.#o.client.call("lease/grant", { TTL: String(this.#o.ttlS) }))["ID"]);
    for (const [key, entry] of missing) {
      const value = base64(JSON.stringify(entry.member));
      await this.#o.client.call("kv/put", { key: base64(key), value, lease: this.#id }).catch((error: unknown) => {
        if (isNotFound(error)) this.#forget();
        throw error;
      });
      entry.written = true;
    }
  }

  /** Only what this process wrote: another one may have its name by now. */
  async #withdraw(key: string): Promise<void> {
    if (this.#id === undefined) return;
    const compare = [{ key: base64(key), target: "LEASE", result: "EQUAL", lease: this.#id }];
    await this.#o.client.call("kv/txn", { compare, success: [{ request_delete_range: { key: base64(key) } }] });
  }

  #forget(): void {
    this.#id = undefined;
    for (const entry of this.#own.values()) entry.written = false;
  }

  /** @param throws failures are the caller's; otherwise the next renewal tries again */
  #then(work: () => Promise<void>, throws = false): Promise<void> {
    const done = this.#work.then(() => (this.#closed ? undefined : work()));
    this.#work = done.catch(() => {});
    return throws ? done : this.#work;
  }
}

const isNotFound = (error: unknown): boolean =>
  error instanceof CgnError && (error.details as { readonly grpc?: number }).grpc === NOT_FOUND;

function whyOf(error: unknown): string {
  if (error instanceof CgnError) return String((error.details as { readonly why?: string }).why ?? error.message);
  return error instanceof Error ? error.message : String(error);
}
