import { X509Certificate } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { createSecureContext } from "node:tls";
import { CgnError } from "../core/errors.ts";
import type { TlsFiles } from "./tls.ts";

/** PEM texts of `[security]`, found to fit together. */
export interface TlsMaterial {
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
  readonly clientCa?: string;
}

/** Files with their keys in `[security]`. */
export const TLS_FILES = {
  caFile: "ca_file",
  certFile: "cert_file",
  keyFile: "key_file",
  clientCaFile: "client_ca_file",
} as const satisfies Partial<Record<keyof TlsFiles, string>>;

type FileName = keyof typeof TLS_FILES;

/** Half a configuration protects nobody, and looks as if it did. @throws CgnError TLS_INVALID */
export function requireWhole({ caFile, certFile, keyFile, clientCaFile, requireMtls }: TlsFiles): void {
  if ((certFile === undefined) !== (keyFile === undefined)) {
    const [there, missing] = certFile === undefined ? ["key_file", "cert_file"] : ["cert_file", "key_file"];
    throw invalid(`[security].${there} is set and ${missing} is not`, "Set both, or neither");
  }
  if (requireMtls && clientCaFile === undefined && caFile === undefined) {
    throw invalid("[security].require_mtls is true and no CA is named", "Set client_ca_file to the CA of your clients");
  }
  if ((requireMtls || clientCaFile !== undefined) && certFile === undefined) {
    const key = requireMtls ? "require_mtls" : "client_ca_file";
    throw invalid(
      `[security].${key} is set and cert_file is not: clients are only asked for certificates over TLS`,
      "Set cert_file and key_file",
    );
  }
}

/**
 * Read the files and see that they can be used now: PEM, the key of its certificate, within their time.
 * @param wallMs milliseconds since 1970
 * @throws CgnError TLS_INVALID
 */
export function readMaterial(files: TlsFiles, wallMs: number): TlsMaterial {
  const [ca, cert, key, clientCa] = (["caFile", "certFile", "keyFile", "clientCaFile"] as const).map((name) =>
    readPem(files, name),
  );
  for (const [name, pem] of [
    ["caFile", ca],
    ["certFile", cert],
    ["clientCaFile", clientCa],
  ] as const) {
    if (pem !== undefined) requireCertificates(files, name, pem, wallMs);
  }
  try {
    for (const each of [ca, clientCa]) if (each !== undefined) createSecureContext({ ca: each });
    if (cert !== undefined && key !== undefined) createSecureContext({ cert, key });
  } catch (cause) {
    throw invalid(
      `the files of [security] do not fit together: ${said(cause)}`,
      "key_file must be the unencrypted key of cert_file",
      cause,
    );
  }
  return { ...given("ca", ca), ...given("cert", cert), ...given("key", key), ...given("clientCa", clientCa) };
}

function readPem(files: TlsFiles, name: FileName): string | undefined {
  const path = files[name];
  if (path === undefined) return undefined;
  try {
    return readFileSync(path, "utf8");
  } catch (cause) {
    throw invalid(`${spelled(files, name)}: ${said(cause)}`, "Name a PEM file that this user may read", cause);
  }
}

/**
 * Node takes a CA text without any certificate for an empty list, and then nobody is proved; and it serves with a certificate that is
 * over, which everybody refuses. Of a bundle one authority that counts is enough.
 */
function requireCertificates(files: TlsFiles, name: FileName, pem: string, wallMs: number): void {
  const all = certificatesIn(pem);
  if (all.length === 0) {
    throw invalid(`${spelled(files, name)}: it has no certificate in PEM form`, "Name a PEM file");
  }
  const looked = name === "certFile" ? all.slice(0, 1) : all;
  const problems = looked.map((each) => timeProblem(each, wallMs));
  if (problems.some((problem) => problem === undefined)) return;
  throw invalid(`${spelled(files, name)}: ${problems[0]}`, "Renew it (cgn pki issue), and look at this host's clock");
}

function timeProblem({ validFrom, validTo }: X509Certificate, wallMs: number): string | undefined {
  if (wallMs > Date.parse(validTo)) return `it is over since ${new Date(validTo).toISOString()}`;
  if (wallMs < Date.parse(validFrom)) return `it does not count before ${new Date(validFrom).toISOString()}`;
  return undefined;
}

const PEM = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** Those that can be read; text between them does not matter. */
function certificatesIn(pem: string): X509Certificate[] {
  return (pem.match(PEM) ?? []).flatMap((each) => {
    try {
      return [new X509Certificate(each)];
    } catch {
      return [];
    }
  });
}

/** From when to when our own certificate counts, in milliseconds since 1970; undefined: there is none. */
export function timeOf({ cert }: TlsMaterial): { readonly beginsAt: number; readonly endsAt: number } | undefined {
  const own = cert === undefined ? undefined : certificatesIn(cert)[0];
  return own === undefined ? undefined : { beginsAt: Date.parse(own.validFrom), endsAt: Date.parse(own.validTo) };
}

/** Changes with the files. */
export function stampOf(files: TlsFiles): string {
  return Object.keys(TLS_FILES)
    .map((name) => {
      const path = files[name as FileName];
      if (path === undefined) return "";
      try {
        const { mtimeMs, size, ino } = statSync(path);
        return `${mtimeMs}/${size}/${ino}`;
      } catch {
        return "gone";
      }
    })
    .join(" ");
}

const spelled = (files: TlsFiles, name: FileName): string => `[security].${TLS_FILES[name]} = "${files[name]}"`;

const given = <K extends string>(name: K, value: string | undefined): { [P in K]?: string } =>
  value === undefined ? {} : ({ [name]: value } as { [P in K]: string });

function invalid(is: string, right: string, cause?: unknown): CgnError {
  return new CgnError("TLS_INVALID", `Cannot use TLS: ${is}. ${right}`, {}, { cause }) as CgnError;
}

function said(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}
