import type { IncomingMessage } from "node:http";
import type { TLSSocket } from "node:tls";
import { CgnError } from "../core/errors.ts";
import type { HttpTls } from "./server.ts";

/**
 * The same certificates for a port that also tells its health to who shows none (a kubelet has no certificate): a wrong one is cut all the
 * same, and everything else is for `requireCertificate()`.
 */
export function optionalCertificates(tls: HttpTls | undefined): HttpTls | undefined {
  if (tls === undefined) return undefined;
  return {
    serverOptions() {
      const options = tls.serverOptions();
      return options === undefined ? undefined : { ...options, required: false };
    },
    onChange: (listener) => tls.onChange(listener),
    refused: (why, from) => tls.refused?.(why, from),
  };
}

/** Did the other side show a certificate that counts, or does the port ask for none? */
export function hasCertificate({ socket }: Pick<IncomingMessage, "socket">, tls: HttpTls | undefined): boolean {
  return tls?.serverOptions()?.required !== true || (socket as Partial<TLSSocket>).authorized === true;
}

/** @throws CgnError UNAUTHENTICATED */
export function requireCertificate(req: Pick<IncomingMessage, "socket">, tls: HttpTls | undefined, path: string): void {
  if (hasCertificate(req, tls)) return;
  tls?.refused?.("no certificate was shown", req.socket.remoteAddress);
  const message = `Cannot serve ${path}: no certificate was shown ([security].require_mtls). Show one of client_ca_file; /healthz and /readyz need none`;
  throw new CgnError("UNAUTHENTICATED", message, {});
}
