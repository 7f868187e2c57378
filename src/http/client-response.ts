import type { IncomingHttpHeaders, OutgoingHttpHeaders } from "node:http";

/** The head of a client's request: Node's `IncomingMessage`, or what another thread told of one. */
export interface ClientRequest {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly headers: IncomingHttpHeaders;
  /** Name, value, name, value, … as they came. */
  readonly rawHeaders: readonly string[];
}

/** Where a client's answer goes: Node's `ServerResponse`, or the way to one in another thread. */
export interface ClientResponse {
  readonly headersSent: boolean;
  readonly writableEnded: boolean;
  readonly writableFinished: boolean;
  readonly destroyed: boolean;
  readonly statusCode: number;
  setHeader(name: string, value: string): unknown;
  writeHead(status: number, headers?: OutgoingHttpHeaders): ClientResponse;
  flushHeaders(): void;
  /** @returns false: wait for `drain` before more is written */
  write(chunk: string | Uint8Array): boolean;
  end(chunk?: string | Uint8Array): unknown;
  destroy(): unknown;
  on(event: "close" | "error", listener: () => void): unknown;
  once(event: "drain", listener: () => void): unknown;
}
