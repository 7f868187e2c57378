import { readFileSync, statSync } from "node:fs";
import { createSecureContext, type SecureContextOptions } from "node:tls";
import type { Clock } from "../core/clock.ts";
import { CgnError } from "../core/errors.ts";
import type { Log } from "../core/log.ts";

/** Names of the PEM files of `[security]`. */
export interface TlsFiles {
  /** Proves other daemons to us. Undefined: the system's CAs do. */
  readonly caFile?: string;
  readonly certFile?: string;
  readonly keyFile?: string;
  /** Proves clients to us. Undefined: `caFile` does, where certificates are required. */
  readonly clientCaFile?: string;
  /** Refuse clients without a certificate. */
  readonly requireMtls: boolean;
}

/** What a TLS server is made with, and given anew after each change. */
export interface TlsServerOptions extends SecureContextOptions {
  /** Ask clients for a certificate; one that is given must be right. */
  readonly requestCert: boolean;
  /** Refuse clients that give none. */
  readonly required: boolean;
}

/** The key material of this process, as its files are now. */
export interface WireTls {
  /** Undefined: there is no certificate, servers speak clear text. */
  serverOptions(): TlsServerOptions | undefined;
  /** For connections to others; a certificate of ours is shown where the server asks for it. */
  clientOptions(): SecureContextOptions;
  /** After the files changed and were found good; the result ends it. */
  onChange(listener: () => void): () => void;
  close(): void;
}

export interface TlsDeps {
  readonly clock: Clock;
  readonly log: Log;
}

/** How often the files are looked at. By polling: mounted secrets are swapped by symbolic links, which file watches miss. */
const LOOK_MS = 10_000;

/** Files with their keys in `[security]`. */
const FILES = {
  caFile: "ca_file",
  certFile: "cert_file",
  keyFile: "key_file",
  clientCaFile: "client_ca_file",
} as const satisfies Partial<Record<keyof TlsFiles, string>>;

interface Material {
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
  readonly clientCa?: string;
}

/**
 * Read the files, and again when they change. Files that became bad (half written, a key of another certificate) are said in the
 * log, and the ones before stay in use.
 * @throws CgnError TLS_INVALID: half configured, not readable, no PEM, the key of another certificate
 */
export function openTls(files: TlsFiles, { clock, log }: TlsDeps): WireTls {
  requireWhole(files);
  let material = readMaterial(files);
  let seen = stampOf(files);
  const listeners = new Set<() => void>();
  let cancel = (): void => {};
  const look = (): void => {
    cancel = clock.after(LOOK_MS, () => {
      const stamp = stampOf(files);
      if (stamp !== seen) {
        try {
          material = readMaterial(files);
          for (const listener of listeners) listener();
          log.info("TLS files changed: new connections use them");
        } catch (error) {
          log.error("TLS files changed and are not usable: the ones before stay in use", {
            why: error instanceof Error ? error.message : String(error),
          });
        }
        seen = stamp;
      }
      look();
    });
  };
  if (Object.keys(FILES).some((name) => files[name as keyof typeof FILES] !== undefined)) look();
  return {
    serverOptions() {
      const { cert, key, ca } = material;
      const clientCa = material.clientCa ?? (files.requireMtls ? ca : undefined);
      if (cert === undefined || key === undefined) return undefined;
      const client = clientCa === undefined ? {} : { ca: clientCa };
      return { ...MODERN, cert, key, ...client, requestCert: clientCa !== undefined, required: files.requireMtls };
    },
    clientOptions() {
      const { ca, cert, key } = material;
      return {
        ...MODERN,
        ...(ca === undefined ? {} : { ca }),
        ...(cert === undefined || key === undefined ? {} : { cert, key }),
      };
    },
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    close: () => cancel(),
  };
}

const MODERN = { minVersion: "TLSv1.2" } as const;

/** Half a configuration protects nobody, and looks as if it did. */
function requireWhole({ caFile, certFile, keyFile, clientCaFile, requireMtls }: TlsFiles): void {
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

function readMaterial(files: TlsFiles): Material {
  const read = (name: keyof typeof FILES): string | undefined => {
    const path = files[name];
    if (path === undefined) return undefined;
    try {
      return readFileSync(path, "utf8");
    } catch (cause) {
      throw invalid(
        `[security].${FILES[name]} = "${path}": ${said(cause)}`,
        "Name a PEM file that this user may read",
        cause,
      );
    }
  };
  const [ca, cert, key, clientCa] = [read("caFile"), read("certFile"), read("keyFile"), read("clientCaFile")];
  for (const [name, pem] of [
    ["caFile", ca],
    ["certFile", cert],
    ["clientCaFile", clientCa],
  ] as const) {
    // Node takes a CA text without any certificate for an empty list, and then nobody is proved.
    if (pem !== undefined && !pem.includes("-----BEGIN CERTIFICATE-----")) {
      throw invalid(
        `[security].${FILES[name]} = "${files[name]}": it has no certificate in PEM form`,
        "Name a PEM file",
      );
    }
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

const given = <K extends string>(name: K, value: string | undefined): { [P in K]?: string } =>
  value === undefined ? {} : ({ [name]: value } as { [P in K]: string });

/** Changes with the files. */
function stampOf(files: TlsFiles): string {
  return Object.keys(FILES)
    .map((name) => {
      const path = files[name as keyof typeof FILES];
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

function invalid(is: string, right: string, cause?: unknown): CgnError {
  return new CgnError("TLS_INVALID", `Cannot use TLS: ${is}. ${right}`, {}, { cause }) as CgnError;
}

function said(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}
