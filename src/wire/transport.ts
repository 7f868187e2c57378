import { Agent } from "node:http";
import type { Transport } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";

/** The other end of a wire: a Unix socket, or a base URL such as `http://127.0.0.1:7072`. */
export type WireAddress = { readonly uds: string } | { readonly url: string };

/** Connect over HTTP/1.1 with connections kept: the same for a Unix socket and TCP. The agent is to be destroyed at the end. */
export function wireTransport(address: WireAddress): { readonly transport: Transport; readonly agent: Agent } {
  const agent = new Agent({ keepAlive: true });
  const nodeOptions = "uds" in address ? { socketPath: address.uds, agent } : { agent };
  const baseUrl = "uds" in address ? "http://localhost" : address.url;
  return { agent, transport: createConnectTransport({ httpVersion: "1.1", baseUrl, nodeOptions }) };
}

/** For messages. */
export function wireName(address: WireAddress): string {
  return "uds" in address ? address.uds : address.url;
}
