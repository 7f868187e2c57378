import { hash } from "node:crypto";
import type { JWTPayload } from "jose";
import type { Clock } from "../core/clock.ts";
import { CgnError } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import { type FetchJson, KeySet, type KeySetStatus } from "./key-set.ts";
import { SCOPES, type Scope, type Subject } from "./subject.ts";

/** Signatures that a public key proves. Nothing else may be allowed: `none` proves nothing, and `HS256` takes a public key for a secret. */
export const ALGORITHMS = [
  "RS256",
  "RS384",
  "RS512",
  "PS256",
  "PS384",
  "PS512",
  "ES256",
  "ES384",
  "ES512",
  "EdDSA",
] as const;

export interface OidcSettings {
  readonly issuer: string;
  /** Undefined: tokens of any audience. */
  readonly audience?: string;
  readonly jwksUrl?: string;
  readonly jwksTtlMs: number;
  readonly algorithms: readonly string[];
  /** By how much clocks may differ. */
  readonly leewayMs: number;
  readonly subjectClaim: string;
  readonly scopesClaim: string;
  readonly modelsClaim: string;
}

/** Longest token that is looked at. Those of large groups have some 8 KB. */
const MAX_TOKEN = 16 * 1024;
const MAX_PROVED = 10_000;
const SCOPE_PREFIX = "cgn:";

interface Proved {
  readonly subject: Subject;
  readonly expiresAtMs: number;
}

/** Does a bearer text look like a JWT? Then it is no API key. */
export function looksLikeToken(bearer: string): boolean {
  return /^eyJ[\w-]*\.[\w-]*\.[\w-]*$/.test(bearer);
}

/** Checks tokens of one OIDC issuer. One that was proved is believed until it expires or the issuer's keys change. */
export class OidcVerifier {
  readonly #settings: OidcSettings;
  readonly #clock: Clock;
  readonly #keys: KeySet;
  readonly #proved = new Map<string, Proved>();
  #version = 0;

  constructor(
    settings: OidcSettings,
    deps: { readonly clock: Clock; readonly log: Log; readonly fetchJson: FetchJson },
  ) {
    this.#settings = settings;
    this.#clock = deps.clock;
    this.#keys = new KeySet({ issuer: settings.issuer, jwksUrl: settings.jwksUrl, ttlMs: settings.jwksTtlMs, ...deps });
  }

  /** Whose token is this? @throws CgnError UNAUTHENTICATED, DEPENDENCY_UNREACHABLE (as rejections) */
  verify(token: string): Subject | Promise<Subject> {
    if (token.length > MAX_TOKEN) throw refused(`it has more than ${MAX_TOKEN} bytes`);
    this.#forgetOld();
    const tag = hash("sha256", token, "base64");
    const proved = this.#proved.get(tag);
    if (proved !== undefined && this.#clock.wall() < proved.expiresAtMs) return proved.subject;
    return this.#prove(token, tag);
  }

  /** What was proved by keys that may be gone is proved no more. */
  #forgetOld(): void {
    if (this.#version === this.#keys.version) return;
    this.#proved.clear();
    this.#version = this.#keys.version;
  }

  status(): KeySetStatus & { readonly issuer: string } {
    return { issuer: this.#settings.issuer, ...this.#keys.status() };
  }

  close(): void {
    this.#keys.close();
  }

  async #prove(token: string, tag: string): Promise<Subject> {
    const { issuer, audience, algorithms, leewayMs } = this.#settings;
    const { jwtVerify } = await import("jose");
    await this.#keys.loaded();
    const { version } = this.#keys;
    let payload: JWTPayload;
    try {
      ({ payload } = await jwtVerify(token, this.#keys.find, {
        issuer,
        ...(audience === undefined ? {} : { audience }),
        algorithms: [...algorithms],
        clockTolerance: leewayMs / 1000,
        currentDate: new Date(this.#clock.wall()),
        requiredClaims: ["exp"],
      }));
    } catch (e) {
      if (!this.#keys.ready) {
        const message = "Cannot check the token: the issuer's keys cannot be read. Try again later";
        throw new CgnError("DEPENDENCY_UNREACHABLE", message, { retryAfterS: 5 });
      }
      throw refused(reasonOf(e));
    }
    const subject = this.#subjectOf(payload);
    // Keys that came meanwhile may not have the one that proved it: then the next time proves it again.
    if (version !== this.#keys.version) return subject;
    this.#forgetOld();
    if (this.#proved.size >= MAX_PROVED) this.#proved.clear();
    this.#proved.set(tag, { subject, expiresAtMs: (payload.exp ?? 0) * 1000 + leewayMs });
    return subject;
  }

  #subjectOf(payload: JWTPayload): Subject {
    const { subjectClaim, scopesClaim, modelsClaim } = this.#settings;
    const name = claimAt(payload, subjectClaim);
    if (typeof name !== "string" || !/^[^\p{Cc}]{1,256}$/u.test(name)) throw refused(`it has no "${subjectClaim}"`);
    const written = words(claimAt(payload, scopesClaim)).filter((scope) => scope.startsWith(SCOPE_PREFIX));
    const scopes = written
      .map((scope) => scope.slice(SCOPE_PREFIX.length))
      .filter((scope): scope is Scope => (SCOPES as readonly string[]).includes(scope));
    const models = claimAt(payload, modelsClaim);
    return {
      name,
      authenticated: true,
      keyId: `oidc:${name}`,
      // A token that says nothing of cgn was made for its audience all the same.
      scopes: new Set(written.length === 0 ? ["inference"] : scopes),
      priority: 0,
      limits: {},
      ...(models === undefined ? {} : { models: words(models) }),
    };
  }
}

/** A claim by its name, or by a path with dots where no claim has that name. */
function claimAt(payload: JWTPayload, name: string): unknown {
  if (Object.hasOwn(payload, name)) return payload[name];
  return name.split(".").reduce<unknown>((at, step) => {
    return typeof at === "object" && at !== null && Object.hasOwn(at, step) ? (at as never)[step] : undefined;
  }, payload);
}

/** A list of texts, or one text with blanks (OAuth's `scope`). */
function words(claim: unknown): string[] {
  if (typeof claim === "string") return claim.split(" ").filter((word) => word !== "");
  return Array.isArray(claim) ? claim.filter((word) => typeof word === "string") : [];
}

function refused(is: string): CgnError {
  return new CgnError(
    "UNAUTHENTICATED",
    `Cannot accept the token: ${is}. Get a new one from the issuer`,
    {},
  ) as CgnError;
}

const REASONS: Readonly<Record<string, string>> = {
  ERR_JWT_EXPIRED: "it has expired",
  ERR_JOSE_ALG_NOT_ALLOWED: "its algorithm is not allowed",
  ERR_JWS_SIGNATURE_VERIFICATION_FAILED: "its signature is wrong",
  ERR_JWKS_NO_MATCHING_KEY: "the issuer has no such key",
  ERR_JWKS_MULTIPLE_MATCHING_KEYS: "it does not say which of the issuer's keys signed it",
};

/** What is wrong in words of ours: a token's own text is not repeated. */
function reasonOf(e: unknown): string {
  const { code = "", claim = "" } = e as { code?: string; claim?: string };
  if (code === "ERR_JWT_CLAIM_VALIDATION_FAILED") return `its claim "${claim}" does not fit`;
  return REASONS[code] ?? "it is no signed token";
}
