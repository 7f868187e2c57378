import type { JWTVerifyGetKey } from "jose";
import type { Clock } from "../core/clock.ts";
import type { Log } from "../core/log.ts";

/** Reads a JSON document. Rejects for anything but a 200 of that very address: no redirects, bounded in size and time. */
export type FetchJson = (url: string) => Promise<unknown>;

/** State of an issuer's keys, for status. */
export interface KeySetStatus {
  readonly keys: number;
  /** Since the keys were read; undefined: never. */
  readonly ageMs?: number;
  /** Why they could not be read anew; those that are known count on. */
  readonly problem?: string;
}

export interface KeySetOptions {
  readonly issuer: string;
  /** Undefined: asked from the issuer's `/.well-known/openid-configuration`. */
  readonly jwksUrl: string | undefined;
  readonly ttlMs: number;
  readonly fetchJson: FetchJson;
  readonly clock: Clock;
  readonly log: Log;
}

/** A key that is not known is asked for at most so often, so that invented names cost the issuer nothing. */
const UNKNOWN_KEY_MS = 10_000;
const RETRY_MS = 10_000;
const MAX_KEYS = 100;

/**
 * The public keys of an OIDC issuer: read at the start, then once every `ttlMs`, and when a token names a key that is not among
 * them (rotation). While the issuer cannot be reached the keys that are known count on.
 */
export class KeySet {
  readonly #o: KeySetOptions;
  #find: JWTVerifyGetKey | undefined;
  #keys = 0;
  #text = "";
  #readAtMs: number | undefined;
  #triedAtMs = Number.NEGATIVE_INFINITY;
  #problem: string | undefined;
  #pending: Promise<void> | undefined;
  #cancel = (): void => {};
  #closed = false;
  /** Grows with each set of keys that differs from the one before. */
  version = 0;

  constructor(options: KeySetOptions) {
    this.#o = options;
    this.#wait(0);
  }

  /** The key for a token's header. @throws (as a rejection) jose's JWKSNoMatchingKey; Error while no keys are known */
  readonly find: JWTVerifyGetKey = async (header, token) => {
    if (this.#find === undefined) throw new Error(this.#problem ?? "no keys are known");
    try {
      return await this.#find(header, token);
    } catch (e) {
      if ((e as { code?: string }).code !== "ERR_JWKS_NO_MATCHING_KEY") throw e;
      if (this.#o.clock.now() - this.#triedAtMs < UNKNOWN_KEY_MS) throw e;
      await this.refresh();
      return await this.#find(header, token);
    }
  };

  /** Wait for the first keys, where they are being read or it is time to try again. */
  async loaded(): Promise<void> {
    if (this.#find !== undefined) return;
    if (this.#pending !== undefined || this.#o.clock.now() - this.#triedAtMs >= RETRY_MS) await this.refresh();
  }

  get ready(): boolean {
    return this.#find !== undefined;
  }

  status(): KeySetStatus {
    const ageMs = this.#readAtMs === undefined ? undefined : Math.round(this.#o.clock.now() - this.#readAtMs);
    return {
      keys: this.#keys,
      ...(ageMs === undefined ? {} : { ageMs }),
      ...(this.#problem === undefined ? {} : { problem: this.#problem }),
    };
  }

  /** Read the keys now; whoever asks meanwhile waits for the same reading. Never rejects. */
  refresh(): Promise<void> {
    this.#pending ??= this.#read().finally(() => {
      this.#pending = undefined;
      this.#wait(this.#problem === undefined ? this.#o.ttlMs : Math.min(RETRY_MS, this.#o.ttlMs));
    });
    return this.#pending;
  }

  close(): void {
    this.#closed = true;
    this.#cancel();
  }

  #wait(ms: number): void {
    this.#cancel();
    if (!this.#closed) this.#cancel = this.#o.clock.after(ms, () => void this.refresh());
  }

  async #read(): Promise<void> {
    this.#triedAtMs = this.#o.clock.now();
    try {
      const { createLocalJWKSet } = await import("jose");
      const jwks = await this.#o.fetchJson(this.#o.jwksUrl ?? (await this.#discover()));
      const set = publicKeysOf(jwks);
      const text = JSON.stringify(set);
      if (text !== this.#text) {
        this.#find = createLocalJWKSet(set);
        this.#text = text;
        this.#keys = set.keys.length;
        this.version++;
        this.#o.log.info("Keys of the OIDC issuer read", { issuer: this.#o.issuer, keys: this.#keys });
      }
      this.#readAtMs = this.#o.clock.now();
      this.#problem = undefined;
    } catch (e) {
      const said = e instanceof Error ? e.message : String(e);
      if (said !== this.#problem) {
        const goesOn = this.#find === undefined ? "tokens are refused until then" : "the keys that are known count on";
        this.#o.log.error(`The OIDC issuer's keys cannot be read; ${goesOn}`, { issuer: this.#o.issuer, said });
      }
      this.#problem = said;
    }
  }

  async #discover(): Promise<string> {
    const { issuer } = this.#o;
    const url = `${issuer.replace(/\/+$/, "")}/.well-known/openid-configuration`;
    const document = (await this.#o.fetchJson(url)) as { issuer?: unknown; jwks_uri?: unknown } | null;
    if (document?.issuer !== issuer) throw new Error(`${url} is of another issuer (${String(document?.issuer)})`);
    const { jwks_uri: keys } = document;
    if (typeof keys !== "string" || !URL.canParse(keys)) throw new Error(`${url} names no jwks_uri`);
    // Keys that came in clear text are anybody's, unless the issuer itself is reached so.
    if (!keys.startsWith("https:") && issuer.startsWith("https:")) throw new Error(`${url} names keys without https`);
    return keys;
  }
}

/** Only public keys of asymmetric kinds: a shared secret in there would make every reader of the document an issuer. */
function publicKeysOf(jwks: unknown): { keys: { kty: string }[] } {
  const { keys } = (jwks ?? {}) as { keys?: unknown };
  if (!Array.isArray(keys)) throw new Error("the key document has no list of keys");
  const usable = keys.filter(
    (key): key is { kty: string } =>
      typeof key === "object" && key !== null && ["RSA", "EC", "OKP"].includes((key as { kty?: string }).kty ?? ""),
  );
  if (usable.length === 0) throw new Error("the key document has no public key");
  return { keys: usable.slice(0, MAX_KEYS) };
}
