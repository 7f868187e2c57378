import { createHmac, randomBytes } from "node:crypto";
import type { Clock } from "../core/clock.ts";
import { CgnError } from "../core/errors.ts";
import { type ChosenHash, hashApiKey, isMadeKey, MAX_KEY_LENGTH, matchesChosen } from "./api-key.ts";
import type { KeyEntry } from "./key-lines.ts";
import type { Subject } from "./subject.ts";
import { type Bucket, takeAll } from "./token-bucket.ts";

/** What a key gives its caller; the entry's expiry is looked at with each request. */
export interface KeyGrant {
  readonly subject: Subject;
  readonly expiresAtMs: number | undefined;
}

/** Chosen keys that were proved once: 60 ms each time would stop the router. */
const MAX_PROVED = 256;

/** So many unknown keys a second are tried against those that people chose, and so many at once. */
const GUESSES = { key: "guess", capacity: 10, perSecond: 1, cost: 1, needs: 1 };

function grantOf(entry: KeyEntry): KeyGrant {
  const { name, scopes, models, priority, limits, expiresAtMs, hash } = entry;
  const id = typeof hash === "string" ? hash.slice(0, 12) : hash.derived.toString("hex", 0, 6);
  return {
    subject: {
      name,
      authenticated: true,
      keyId: `key:${id}`,
      scopes: new Set(scopes),
      // Who may go ahead of others is said by the key.
      priority: priority ?? 0,
      limits,
      ...(models === undefined ? {} : { models }),
    },
    expiresAtMs,
  };
}

/**
 * The keys that are valid now.
 *
 * Made keys are found by their SHA-256: what is compared is a digest that the caller cannot steer, so the time of the look-up says
 * nothing about any key. Keys that people chose are derived by scrypt and compared in constant time.
 */
export class KeyRing {
  readonly #made = new Map<string, KeyGrant>();
  readonly #chosen: { readonly hash: ChosenHash; readonly grant: KeyGrant }[] = [];
  readonly #proved = new Map<string, KeyGrant>();
  readonly #secret = randomBytes(32);
  readonly #clock: Clock;
  #guesses: Bucket | undefined;
  #queue: Promise<unknown> = Promise.resolve();

  constructor(entries: readonly KeyEntry[], clock: Clock) {
    this.#clock = clock;
    for (const entry of entries) {
      const { hash } = entry;
      if (typeof hash === "string") this.#made.set(hash, grantOf(entry));
      else this.#chosen.push({ hash, grant: grantOf(entry) });
    }
  }

  get size(): number {
    return this.#made.size + this.#chosen.length;
  }

  /** All that there is, without hashes: for status and `cgn key list`. */
  grants(): readonly KeyGrant[] {
    return [...this.#made.values(), ...this.#chosen.map(({ grant }) => grant)];
  }

  /**
   * Whose key is this? A promise only for one that people may have chosen. Undefined: nobody's.
   * @throws CgnError RATE_LIMITED (as a rejection) when too many unknown keys were tried
   */
  find(key: string): KeyGrant | undefined | Promise<KeyGrant | undefined> {
    if (key.length === 0 || key.length > MAX_KEY_LENGTH) return undefined;
    const made = this.#made.get(hashApiKey(key));
    if (made !== undefined || this.#chosen.length === 0 || isMadeKey(key)) return made;
    const tag = createHmac("sha256", this.#secret).update(key).digest("base64");
    const proved = this.#proved.get(tag);
    return proved ?? this.#prove(key, tag);
  }

  /** One at a time: scrypt takes 32 MiB and a thread. */
  #prove(key: string, tag: string): Promise<KeyGrant | undefined> {
    const nowMs = this.#clock.now();
    const { taken, levels } = takeAll(
      [GUESSES],
      () => this.#guesses,
      (_key, bucket) => {
        this.#guesses = bucket;
      },
      nowMs,
      false,
    );
    if (!taken) {
      const message = "Cannot check the API key: too many unknown keys were tried. Try again later";
      return Promise.reject(new CgnError("RATE_LIMITED", message, { retryAfterS: levels[0]!.waitMs / 1000 }));
    }
    const proof = this.#queue.then(async () => {
      const before = this.#proved.get(tag);
      if (before !== undefined) return before;
      for (const { hash, grant } of this.#chosen) {
        if (!(await matchesChosen(key, hash))) continue;
        if (this.#proved.size >= MAX_PROVED) this.#proved.clear();
        this.#proved.set(tag, grant);
        this.#guesses = undefined;
        return grant;
      }
      return undefined;
    });
    this.#queue = proof.catch(() => {});
    return proof;
  }
}
