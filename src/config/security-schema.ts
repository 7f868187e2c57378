import { z } from "zod";
import { ALGORITHMS } from "../access/oidc.ts";
import { about, duration, flag, optionalText, textList } from "./schema-fields.ts";

/** `[security]`: TLS between daemons and towards clients. */
export const securitySchema = z.strictObject({
  ca_file: optionalText("CA certificates that prove other daemons (PEM)", { unit: "path" }),
  cert_file: optionalText("Certificate of this daemon (PEM)", { unit: "path" }),
  key_file: optionalText("Private key of `cert_file` (PEM)", { unit: "path" }),
  client_ca_file: optionalText("CA certificates that prove clients (PEM)", { unit: "path" }),
  require_mtls: flag("Refuse clients without a certificate of `client_ca_file`", false),
});

const limit = (meaning: string, unit: string) =>
  about(z.int().min(1).optional(), meaning, { unit, defaultText: "as `[router.rate_limit]` says" });

const key = z.strictObject({
  hash: about(z.string().min(1), "SHA-256 of the key in hex, or what `cgn key hash --chosen` prints; never the key"),
  name: optionalText("Name in metrics, usage and logs", { defaultText: "`key-` and the first digits of the hash" }),
  scopes: about(textList().prefault(["inference"]), "What it opens: `inference`, `admin`, `metrics`"),
  models: about(textList().optional(), "Globs of the models that it may ask", { defaultText: "all" }),
  rps: about(z.number().positive().optional(), "Requests a second", {
    unit: "requests/s",
    defaultText: "as `[router.rate_limit]` says",
  }),
  rpm: limit("Requests a minute", "requests/min"),
  tpm: limit("Prompt and generated tokens a minute", "tokens/min"),
  concurrent: limit("Requests in flight, on each router", "requests"),
  max_prompt_tokens: about(z.int().min(1).optional(), "Longest prompt", { unit: "tokens", defaultText: "the model's" }),
  priority: about(z.int().default(0), "Highest `x-cgn-priority` that it may ask for", { unit: "higher is sooner" }),
  expires: optionalText("Until when it counts, for example `2027-01-31`", { defaultText: "for ever" }),
});

/** `[auth]`: who may send requests. */
export const authSchema = z.strictObject({
  enabled: flag("Ask every client for an API key or a token", false),
  api_keys_file: optionalText(
    "File with one `HASH [name=… scopes=… models=… rps=… rpm=… tpm=… concurrent=… max_prompt_tokens=… priority=… expires=…]` a line; a bare hash is a full inference key. Read anew when it changes",
    { unit: "path" },
  ),
  keys: about(z.array(key).default([]), "Keys in this file, one `[[auth.keys]]` each"),
  oidc_issuer: optionalText("Issuer of accepted OIDC tokens", { unit: "URL" }),
  oidc_audience: optionalText("Audience that tokens must name", {
    defaultText: "any: tokens for other services are accepted too, and loading warns of it",
  }),
  oidc_jwks_url: optionalText("Where the issuer's keys are", {
    unit: "URL",
    defaultText: "what the issuer's `/.well-known/openid-configuration` names",
  }),
  oidc_jwks_ttl: duration("How long the issuer's keys are kept before they are read anew", 600_000),
  oidc_algorithms: about(
    z.array(z.enum(ALGORITHMS)).min(1).default(["RS256", "ES256", "EdDSA"]),
    "Accepted signatures",
  ),
  oidc_leeway: duration("By how much the issuer's clock may differ", 30_000),
  oidc_subject_claim: about(z.string().min(1).default("sub"), "Claim that names the caller; dots lead into objects"),
  oidc_scopes_claim: about(
    z.string().min(1).default("scope"),
    "Claim with `cgn:inference`, `cgn:admin`, `cgn:metrics`; a token without any of them may send inference requests",
  ),
  oidc_models_claim: about(z.string().min(1).default("models"), "Claim with globs of the models that it may ask"),
  engine_key: optionalText(
    "Key that engines ask for: sent in the place of a client's, which was checked here. Those that `cgn up` starts itself need none",
    { secret: true },
  ),
  protect_metrics: flag("Off loopback ask for a key with the scope `metrics` or `admin` on `/metrics` too", false),
});
