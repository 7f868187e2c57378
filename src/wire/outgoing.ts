import { getCACertificates, rootCertificates, type SecureContextOptions } from "node:tls";
import { Agent, buildConnector, type Dispatcher, getGlobalDispatcher, setGlobalDispatcher } from "undici";
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

/** Those that are in force, the newest last; and what was before the first. */
const guards: Dispatcher[] = [];
let unguarded: Dispatcher | undefined;

/**
 * Let every `fetch()` and `request()` of this process that names no way of its own use the key material, as it is at each new
 * connection: probes of engines, questions to them, `/metrics`, admin ports. Of several the newest counts; the result takes one back.
 */
export function guardOutgoing(tls: WireTls): () => void {
  const own = new Agent({
    allowH2: false,
    connect: (target, done) =>
      buildConnector({ timeout: CONNECT_MS, allowH2: false, ...outgoingOptions(tls) } as buildConnector.BuildOptions)(
        target,
        done,
      ),
  });
  if (guards.length === 0) unguarded = getGlobalDispatcher();
  guards.push(own);
  setGlobalDispatcher(own);
  return () => {
    const at = guards.indexOf(own);
    if (at < 0) return;
    guards.splice(at, 1);
    setGlobalDispatcher(guards.at(-1) ?? unguarded!);
    own.close().catch(() => {});
  };
}
