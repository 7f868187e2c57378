import { Agent } from "node:http";
import { type AgentOptions, Agent as HttpsAgent } from "node:https";
import type { Transport } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import type { WireTls } from "./tls.ts";

/** The other end of a wire: a Unix socket, or a base URL such as `http://127.0.0.1:7072` (`https:` for TLS). */
export type WireAddress = { readonly uds: string } | { readonly url: string };

/**
 * Connect over HTTP/1.1 with connections kept: the same for a Unix socket and TCP. The agent is to be destroyed at the end.
 * @param tls - the certificates for `https:`, as they are at each new connection
 */
export function wireTransport(
  address: WireAddress,
  tls?: WireTls,
): { readonly transport: Transport; readonly agent: Agent } {
  const isTls = "url" in address && new URL(address.url).protocol === "https:";
  const agent = isTls ? new FreshTlsAgent(tls) : new Agent({ keepAlive: true });
  const nodeOptions = "uds" in address ? { socketPath: address.uds, agent } : { agent };
  const baseUrl = "uds" in address ? "http://localhost" : address.url;
  // Compressing costs more than a local network does.
  const transport = createConnectTransport({ httpVersion: "1.1", baseUrl, nodeOptions, acceptCompression: [] });
  return { agent, transport };
}

/** Takes the certificates anew for each connection, so that a renewed one is used without a restart. */
class FreshTlsAgent extends HttpsAgent {
  readonly #tls: WireTls | undefined;

  constructor(tls: WireTls | undefined) {
    super({ keepAlive: true });
    this.#tls = tls;
  }

  override createConnection(options: AgentOptions, callback?: (error: Error | null, socket: never) => void) {
    return super.createConnection({ ...options, ...this.#tls?.clientOptions() }, callback as never);
  }
}

/** For messages. */
export function wireName(address: WireAddress): string {
  return "uds" in address ? address.uds : address.url;
}
