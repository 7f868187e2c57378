import { getCACertificates, rootCertificates, type SecureContextOptions } from "node:tls";
import { Agent, buildConnector, getGlobalDispatcher, setGlobalDispatcher } from "undici";
import type { WireTls } from "./tls.ts";

const CONNECT_MS = 10_000;

/**
 * What connections to those outside of the cluster's own wires are made with: engines, issuers, collectors. The system's CAs prove them
 * as well as `ca_file`; our certificate is shown to who asks for one.
 */
export function outgoingOptions(tls: WireTls): SecureContextOptions {
  const { ca, ...own } = tls.clientOptions();
  return ca === undefined ? own : { ...own, ca: [...systemAuthorities(), ca as string] };
}

let system: readonly string[] | undefined;

/** With those of NODE_EXTRA_CA_CERTS, where this Node can tell (22.15 and newer). */
function systemAuthorities(): readonly string[] {
  system ??= typeof getCACertificates === "function" ? getCACertificates("default") : rootCertificates;
  return system;
}

/**
 * Let every `fetch()` and `request()` of this process that names no way of its own use the key material, as it is at each new
 * connection: probes of engines, questions to them, `/metrics`, admin ports. One for a process; the result takes it back.
 */
export function guardOutgoing(tls: WireTls): () => void {
  const before = getGlobalDispatcher();
  const own = new Agent({
    allowH2: false,
    connect: (target, done) =>
      buildConnector({ timeout: CONNECT_MS, allowH2: false, ...outgoingOptions(tls) } as buildConnector.BuildOptions)(
        target,
        done,
      ),
  });
  setGlobalDispatcher(own);
  return () => {
    if (getGlobalDispatcher() === own) setGlobalDispatcher(before);
    own.close().catch(() => {});
  };
}
