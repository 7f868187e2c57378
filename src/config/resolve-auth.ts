import { parseChosenHash } from "../access/api-key.ts";
import { type KeyEntry, keyOf } from "../access/key-lines.ts";
import type { Section } from "./config-schema.ts";
import { type LoadContext, report } from "./load-context.ts";
import type { AuthSettings } from "./settings.ts";

/** `[auth]`, with what does not fit together noted. */
export function authSettings(ctx: LoadContext, auth: Section<"auth">): AuthSettings {
  const keys = auth.keys.flatMap((key, i) => keyEntry(ctx, key, i));
  if (auth.enabled && auth.api_keys_file === undefined && auth.oidc_issuer === undefined && auth.keys.length === 0) {
    report(ctx, ["auth", "enabled"], {
      problem: "no key and no token could be accepted: neither api_keys_file nor oidc_issuer is written",
      remedy: "Write [auth].api_keys_file (a file with one SHA-256 of a key a line) or [auth].oidc_issuer",
    });
  }
  if (!auth.enabled && auth.keys.length > 0) {
    report(ctx, ["auth", "keys"], {
      severity: "warning",
      problem: "keys are written and [auth].enabled is false: nobody is asked for one",
      remedy: "Set [auth].enabled = true",
    });
  }
  const oidc = oidcSettings(ctx, auth);
  return {
    enabled: auth.enabled,
    keys,
    protectMetrics: auth.protect_metrics,
    ...(auth.engine_key === undefined ? {} : { engineKey: auth.engine_key }),
    ...(auth.api_keys_file === undefined ? {} : { apiKeysFile: auth.api_keys_file }),
    ...(oidc === undefined ? {} : { oidc }),
  };
}

function keyEntry(ctx: LoadContext, key: Section<"auth">["keys"][number], i: number): KeyEntry[] {
  const path = ["auth", "keys", i] as const;
  const digits = /^(?:sha256:)?([0-9a-f]{64})$/i.exec(key.hash)?.[1]?.toLowerCase();
  const hash = digits ?? parseChosenHash(key.hash);
  if (hash === undefined) {
    report(ctx, [...path, "hash"], {
      problem: "is no hash of a key: neither 64 hex digits (SHA-256) nor a hash of cgn key hash --chosen",
      remedy: "Write what cgn key new or cgn key hash prints, never the key itself",
    });
    return [];
  }
  const { hash: _hash, ...fields } = key;
  const texts = Object.entries(fields).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, Array.isArray(value) ? value.join(",") : String(value)] as const],
  );
  const entry = keyOf(hash, new Map(texts));
  if (typeof entry !== "string") return [entry];
  report(ctx, path, { problem: entry, remedy: "Correct the field" });
  return [];
}

function oidcSettings(ctx: LoadContext, auth: Section<"auth">): AuthSettings["oidc"] {
  const { oidc_issuer: issuer, oidc_audience: audience, oidc_jwks_url: jwksUrl } = auth;
  if (issuer === undefined) return undefined;
  for (const [name, url] of [
    ["oidc_issuer", issuer],
    ["oidc_jwks_url", jwksUrl],
  ] as const) {
    if (url === undefined) continue;
    const parsed = URL.canParse(url) ? new URL(url) : undefined;
    if (parsed === undefined || !/^https?:$/.test(parsed.protocol)) {
      report(ctx, ["auth", name], { problem: `"${url}" is no URL`, remedy: "Write https://…" });
    } else if (parsed.protocol === "http:" && !/^(localhost|127\.[\d.]+|\[::1\])$/.test(parsed.hostname)) {
      report(ctx, ["auth", name], {
        severity: "warning",
        problem: "the issuer's keys come in clear text: whoever stands between can make tokens",
        remedy: "Use https",
      });
    }
  }
  if (auth.enabled && audience === undefined) {
    report(ctx, ["auth", "oidc_issuer"], {
      severity: "warning",
      problem: "tokens that the issuer made for any other service are accepted too: no audience is written",
      remedy: "Write [auth].oidc_audience",
    });
  }
  return {
    issuer,
    jwksTtlMs: auth.oidc_jwks_ttl,
    algorithms: auth.oidc_algorithms,
    leewayMs: auth.oidc_leeway,
    subjectClaim: auth.oidc_subject_claim,
    scopesClaim: auth.oidc_scopes_claim,
    modelsClaim: auth.oidc_models_claim,
    ...(audience === undefined ? {} : { audience }),
    ...(jwksUrl === undefined ? {} : { jwksUrl }),
  };
}
