import type { SecureContextOptions } from "node:tls";
import type { Clock } from "../core/clock.ts";
import type { Log } from "../core/log.ts";
import { readMaterial, requireWhole, stampOf, TLS_FILES, timeOf } from "./tls-material.ts";

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

/** How the key material stands. */
export interface TlsStatus {
  /** When our certificate is over, in milliseconds since 1970; undefined: there is none. */
  readonly endsAt: number | undefined;
  /** Why the files as they are now are not used; "": they are. */
  readonly problem: string;
  /** Connections that were refused because the other side could not prove itself, or spoke no TLS. */
  readonly refused: number;
}

/** The key material of this process, as its files are now. */
export interface WireTls {
  /** Undefined: there is no certificate, servers speak clear text. */
  serverOptions(): TlsServerOptions | undefined;
  /** For connections to others; a certificate of ours is shown where the server asks for it. */
  clientOptions(): SecureContextOptions;
  /** After the files changed and were found good; the result ends it. */
  onChange(listener: () => void): () => void;
  /** A listener of ours refused a connection. @param why in Node's words @param from address of the other side */
  refused(why: string, from: string | undefined): void;
  status(): TlsStatus;
  close(): void;
}

export interface TlsDeps {
  readonly clock: Clock;
  readonly log: Log;
}

/** How often the files are looked at. By polling: mounted secrets are swapped by symbolic links, which file watches miss. */
const LOOK_MS = 10_000;
const DAY_MS = 86_400_000;
/** The end is said a month ahead, or when a third of the certificate's time is left, and again at these shares of that. */
const MONTH_MS = 30 * DAY_MS;
const WARN_SHARES = [1, 0.5, 0.25, 0.1, 0.03, 0] as const;
/** Refusals are told at most so often; others are only counted. */
const SAY_MS = 60_000;

const MODERN = { minVersion: "TLSv1.2" } as const;

/**
 * Read the files, and again when they change. Files that became bad (half written, a key of another certificate) are said in the
 * log, and the ones before stay in use. An end that comes near is said too.
 * @throws CgnError TLS_INVALID: half configured, not readable, no PEM, the key of another certificate, over
 */
export function openTls(files: TlsFiles, { clock, log }: TlsDeps): WireTls {
  requireWhole(files);
  let material = readMaterial(files, clock.wall());
  let seen = stampOf(files);
  let problem = "";
  let refused = 0;
  let saidAt = Number.NEGATIVE_INFINITY;
  let warned: number = Number.POSITIVE_INFINITY;
  const listeners = new Set<() => void>();
  let cancel = (): void => {};
  const warnOfEnd = (): void => {
    const time = timeOf(material);
    if (time === undefined) return;
    const leftMs = time.endsAt - clock.wall();
    const noticeMs = Math.min(MONTH_MS, (time.endsAt - time.beginsAt) / 3);
    const share = WARN_SHARES.findLast((each) => leftMs <= each * noticeMs);
    if (share === undefined) warned = Number.POSITIVE_INFINITY;
    if (share === undefined || share >= warned) return;
    warned = share;
    const at = new Date(time.endsAt).toISOString();
    const remedy = "Renew it (cgn pki issue): a new file is used within 10 s";
    if (leftMs <= 0) log.error("The certificate is over: others refuse it", { cert_file: files.certFile, at, remedy });
    else log.warn("The certificate is over soon", { cert_file: files.certFile, at, remedy });
  };
  const readAgain = (): void => {
    try {
      material = readMaterial(files, clock.wall());
      problem = "";
      for (const listener of listeners) listener();
      log.info("TLS files changed: new connections use them");
    } catch (error) {
      problem = error instanceof Error ? error.message : String(error);
      log.error("TLS files changed and are not usable: the ones before stay in use", { why: problem });
    }
  };
  const look = (): void => {
    cancel = clock.after(LOOK_MS, () => {
      const stamp = stampOf(files);
      if (stamp !== seen) readAgain();
      seen = stamp;
      warnOfEnd();
      look();
    });
  };
  warnOfEnd();
  if (Object.keys(TLS_FILES).some((name) => files[name as keyof typeof TLS_FILES] !== undefined)) look();
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
    refused(why, from) {
      refused++;
      // Whoever connects chooses how often.
      if (clock.now() - saidAt < SAY_MS) return;
      saidAt = clock.now();
      log.warn("A connection was refused: the other side did not prove itself", { why, from, refused });
    },
    status: () => ({ endsAt: timeOf(material)?.endsAt, problem, refused }),
    close: () => cancel(),
  };
}
