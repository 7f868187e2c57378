import { z } from "zod";
import { duration, flag, optionalText } from "./schema-fields.ts";

/** `[security]`: TLS between daemons and towards clients. */
export const securitySchema = z.strictObject({
  ca_file: optionalText("CA certificates that prove other daemons (PEM)", { unit: "path" }),
  cert_file: optionalText("Certificate of this daemon (PEM)", { unit: "path" }),
  key_file: optionalText("Private key of `cert_file` (PEM)", { unit: "path" }),
  client_ca_file: optionalText("CA certificates that prove clients (PEM)", { unit: "path" }),
  require_mtls: flag("Refuse clients without a certificate of `client_ca_file`", false),
});

/** `[auth]`: who may send requests. */
export const authSchema = z.strictObject({
  enabled: flag("Ask every client for an API key or a token", false),
  api_keys_file: optionalText(
    "File with one `SHA256 [name=… scopes=… models=… rps=… tpm=…]` a line; a bare hash is a full inference key",
    { unit: "path" },
  ),
  oidc_issuer: optionalText("Issuer of accepted OIDC tokens", { unit: "URL" }),
  oidc_audience: optionalText("Audience that tokens must name"),
  oidc_jwks_ttl: duration("How long the issuer's keys are kept", 600_000),
});
