import type { IncomingHttpHeaders } from "node:http";
import type { Clock } from "../core/clock.ts";
import { CgnError } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import { fetchJson } from "./fetch-json.ts";
import { followKeyFile, type KeyFile } from "./key-file.ts";
import type { KeyEntry } from "./key-lines.ts";
import { type KeyGrant, KeyRing } from "./key-ring.ts";
import { type LimitStore, type LimitStoreStatus, MemoryLimitStore } from "./limit-store.ts";
import { Limits, type RateLimitSettings } from "./limits.ts";
import { looksLikeToken, type OidcSettings, OidcVerifier } from "./oidc.ts";
import type { OnRedisLoss } from "./redis-limit-store.ts";
import { ANONYMOUS, type Scope, type Subject } from "./subject.ts";
import { FREE_TICKET, type Ticket } from "./ticket.ts";

/** `[auth]` and `[router.rate_limit]`. */
export interface AccessSettings {
  readonly auth: {
    /** False: everybody is `anonymous`. */
    readonly enabled: boolean;
    readonly apiKeysFile?: string;
    /** Keys of the configuration itself. */
    readonly keys?: readonly KeyEntry[];
    readonly oidc?: OidcSettings;
  };
  readonly rateLimit: RateLimitSettings & { readonly redisUrl?: string; readonly onRedisLoss?: OnRedisLoss };
  /** Routers of one cluster share limits in Redis. */
  readonly cluster: string;
}

/** Who may do what, and how much of it. One for the process. */
export interface Access {
  /** Keys or tokens are asked for. */
  readonly enabled: boolean;
  /**
   * Say who asks. A promise only where a token or a chosen key must be proved.
   * @param raw `IncomingMessage.rawHeaders`
   * @throws CgnError UNAUTHENTICATED, RATE_LIMITED, DEPENDENCY_UNREACHABLE
   */
  identify(headers: IncomingHttpHeaders, raw: readonly string[]): Subject | Promise<Subject>;
  /**
   * Let a request in by its subject's limits.
   * @throws CgnError RATE_LIMITED, DEPENDENCY_UNREACHABLE
   */
  admit(subject: Subject): Ticket | Promise<Ticket>;
  /** Where limits are counted now. */
  limitStore(): LimitStoreStatus;
  /** For `/v1/cgn/status`. */
  status(): object;
  close(): void;
}

export interface AccessDeps {
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * Open what the settings name: keys file, issuer's keys, Redis. Neither issuer nor Redis need to be there yet.
 * @throws CgnError CONFIG_INVALID or STORAGE_UNUSABLE for the keys file
 */
export async function openAccess(settings: AccessSettings, deps: AccessDeps): Promise<Access> {
  const { auth, rateLimit } = settings;
  const keys = auth.enabled ? new Keys(auth, deps) : undefined;
  const oidc =
    auth.enabled && auth.oidc !== undefined ? new OidcVerifier(auth.oidc, { ...deps, fetchJson }) : undefined;
  const limits = new Limits(rateLimit, await openStore(settings, deps));
  return {
    enabled: auth.enabled,
    identify: (headers, raw) => (auth.enabled ? identify(headers, raw, keys!, oidc, deps.clock) : ANONYMOUS),
    admit: (subject) => limits.admit(subject),
    limitStore: () => limits.status(),
    status: () => ({
      auth: auth.enabled,
      ...(keys === undefined ? {} : keys.status()),
      ...(oidc === undefined ? {} : { oidc: oidc.status() }),
      rateLimit: limits.status(),
    }),
    close() {
      keys?.close();
      oidc?.close();
      limits.close();
    },
  };
}

/** Everybody, without limits: what a router has whose settings say nothing of either. */
export const OPEN_ACCESS: Access = {
  enabled: false,
  identify: () => ANONYMOUS,
  admit: () => FREE_TICKET,
  limitStore: () => ({ store: "memory", state: "ready", buckets: 0 }),
  status: () => ({ auth: false }),
  close() {},
};

async function openStore({ rateLimit, cluster }: AccessSettings, { clock, log }: AccessDeps): Promise<LimitStore> {
  const { redisUrl: url, onRedisLoss: onLoss = "local" } = rateLimit;
  if (url === undefined) return new MemoryLimitStore(clock);
  const { RedisLimitStore } = await import("./redis-limit-store.ts");
  return RedisLimitStore.open({ url, onLoss, cluster, clock, log });
}

/** Keys of the configuration and of the file, together. */
class Keys {
  readonly #own: readonly KeyEntry[];
  readonly #file: KeyFile | undefined;
  ring: KeyRing;

  constructor({ apiKeysFile, keys = [] }: AccessSettings["auth"], deps: AccessDeps) {
    this.#own = keys;
    const ringOf = (entries: readonly KeyEntry[]): KeyRing => new KeyRing([...this.#own, ...entries], deps.clock);
    this.#file =
      apiKeysFile === undefined
        ? undefined
        : followKeyFile(apiKeysFile, deps, (entries) => {
            this.ring = ringOf(entries);
          });
    this.ring = ringOf(this.#file?.entries ?? []);
  }

  status(): object {
    return { keys: this.ring.size, ...(this.#file === undefined ? {} : { keysFile: this.#file.status() }) };
  }

  close(): void {
    this.#file?.close();
  }
}

function identify(
  headers: IncomingHttpHeaders,
  raw: readonly string[],
  keys: Keys,
  oidc: OidcVerifier | undefined,
  clock: Clock,
): Subject | Promise<Subject> {
  const shown = credential(headers, raw);
  if (oidc !== undefined && looksLikeToken(shown)) return oidc.verify(shown);
  const found = keys.ring.find(shown);
  if (found instanceof Promise) return found.then((grant) => subjectOf(grant, clock));
  return subjectOf(found, clock);
}

function subjectOf(grant: KeyGrant | undefined, clock: Clock): Subject {
  if (grant === undefined) throw refused("no such key is known", "Check it, or ask the operator for one");
  const { subject, expiresAtMs } = grant;
  if (expiresAtMs !== undefined && clock.wall() >= expiresAtMs)
    throw refused("the key has expired", "Ask for a new one");
  return subject;
}

/**
 * The key or token that was shown: `Authorization: Bearer …`, else `x-api-key` (Anthropic's clients).
 * @throws CgnError UNAUTHENTICATED
 */
function credential(headers: IncomingHttpHeaders, raw: readonly string[]): string {
  const { authorization, "x-api-key": apiKey } = headers;
  if (authorization !== undefined) {
    let shown = 0;
    for (let i = 0; i < raw.length; i += 2)
      if (raw[i]!.length === 13 && raw[i]!.toLowerCase() === "authorization") shown++;
    // Node tells of the first one only; a proxy in front may have checked the other.
    if (shown > 1) throw refused("there are several Authorization headers", "Send one");
    const bearer = /^bearer +(\S+)$/i.exec(authorization.trim())?.[1];
    if (bearer !== undefined) return bearer;
    if (apiKey === undefined) throw refused("the Authorization header is no Bearer", "Send Authorization: Bearer KEY");
  }
  if (typeof apiKey === "string" && apiKey !== "") return apiKey;
  throw refused("there is no API key", "Send Authorization: Bearer KEY, or x-api-key: KEY");
}

function refused(is: string, should: string): CgnError {
  return new CgnError("UNAUTHENTICATED", `Cannot serve the request: ${is}. ${should}`, {}) as CgnError;
}

/**
 * Refuse a subject that lacks a scope.
 * @throws CgnError FORBIDDEN
 */
export function requireScope(subject: Subject, scope: Scope, path: string): void {
  if (subject.scopes.has(scope)) return;
  const message = `Cannot serve ${path}: the key of "${subject.name}" lacks the scope "${scope}". Use one that has it`;
  throw new CgnError("FORBIDDEN", message, { scope });
}
